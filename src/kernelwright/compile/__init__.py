"""`torch.compile(model, backend="kernelwright")`: verified kernels behind the line that users write
already (docs/compile.md)."""
