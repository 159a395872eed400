"""Kernels of sums of products: matrix products with what is fused around them."""
