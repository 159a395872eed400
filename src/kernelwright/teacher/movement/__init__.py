"""Kernels that move elements: joins, cuts, picks by index, interpolation."""
