"""Pools: answers of a policy to many programs, judged and timed once, to learn from often."""
