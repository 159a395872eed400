"""The page of a KernelBench run."""
