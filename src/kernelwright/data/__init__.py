"""Training data: programs from real modules, pairs, and pools of judged answers. `inductor` turns
TorchInductor's kernels into candidates."""
