"""Measurement of times: the lock of a GPU, cold caches, interleaved calls, intervals of medians.
The package also has deadlines and the physical floor of a time."""
