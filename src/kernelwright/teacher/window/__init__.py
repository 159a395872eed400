"""Kernels that slide a window: convolutions and pools."""
