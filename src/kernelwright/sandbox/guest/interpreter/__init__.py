"""Triton's interpreter, made trustworthy, for judging without a GPU."""
