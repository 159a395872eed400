import torch


def get_inputs():
    return [torch.randn(700) * 2, torch.randn(700), torch.tensor(0.7)]


def fused_operator(x, target, weight):
    """A weighted loss as a 0-d tensor, and how many residuals are large."""
    loss = torch.nn.functional.huber_loss(x, target, delta=1.0) * weight
    return {"loss": loss, "large": ((x - target).abs() > 1).sum()}
