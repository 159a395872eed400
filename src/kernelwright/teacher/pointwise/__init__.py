"""Kernels of pointwise and broadcasting operators."""
