"""Clocks: cold caches, interleaved calls, intervals of medians, deadlines."""
