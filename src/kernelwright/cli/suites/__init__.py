"""`kernelwright eval`: a verb for each suite."""
