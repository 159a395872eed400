"""Whole models behind `torch.compile(model, backend="kernelwright")`, beside torch.compile."""
