"""Kernels of attention: scores never lie in memory."""
