"""Kernels of reductions and scans."""
