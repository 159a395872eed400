"""Public architectures, small and with random weights: how many does kernelwright take?"""
