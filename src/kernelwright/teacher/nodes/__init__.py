"""A program as primitive nodes over axes: the source of pointwise kernels and reductions."""
