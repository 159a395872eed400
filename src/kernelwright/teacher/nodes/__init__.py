"""A program as primitive nodes over axes, which every family of kernels reads."""
