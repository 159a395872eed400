import torch


def get_inputs():
    return [torch.softmax(torch.randn(9, 24), dim=-1), torch.rand(9)]


def fused_operator(probabilities, u):
    """Draws a class for each row: the first whose cumulative probability exceeds u."""
    cumulative = probabilities.cumsum(-1)
    index = (cumulative <= u[:, None]).sum(-1).clamp(max=probabilities.shape[-1] - 1)
    return [index, probabilities.gather(1, index[:, None])[:, 0]]
