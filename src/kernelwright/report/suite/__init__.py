"""The page of a KernelBench run. The site and the comparison of two runs use its scores and rows
too."""
