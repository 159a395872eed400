"""Inputs whose sizes vary from call to call: what users ask for, and which calls kernels serve."""
