"""TorchInductor's kernels as candidates: harvested, and rewritten to stand alone."""
