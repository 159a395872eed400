"""Batches, training and long use behind `torch.compile(model, backend="kernelwright")`."""
