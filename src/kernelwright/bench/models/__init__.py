"""Models of timm and transformers behind `torch.compile(model, backend="kernelwright")`."""
