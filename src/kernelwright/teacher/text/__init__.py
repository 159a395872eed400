"""Texts that kernels of all families share: sizes, index variables, expressions."""
