import torch


def get_inputs():
    return [torch.randn(2, 4, 12, 16), torch.randn(2, 4, 12, 16), torch.randn(2, 4, 12, 16)]


def fused_operator(q, k, v):
    """Causal attention with a slope for each head."""
    heads, tokens = q.shape[1], q.shape[2]
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=q.device) / heads)
    place = torch.arange(tokens, device=q.device)
    distance = place[None, :] - place[:, None]
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + slopes[:, None, None] * distance
    scores = scores.masked_fill(distance > 0, float("-inf"))
    return [scores.softmax(-1) @ v]
