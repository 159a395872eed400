"""From an nn.Module to a program: torch.export, then operator calls."""
