"""The contest of a whole program: PyTorch, torch.compile and our wholes, timed in turn."""
