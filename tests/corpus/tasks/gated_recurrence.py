import torch


def get_inputs():
    return [torch.sigmoid(torch.randn(3, 40, 6)), torch.randn(3, 40, 6)]


def fused_operator(decay, x):
    """A linear recurrence along the second dimension: all states, and the last."""
    state = torch.zeros_like(x[:, 0])
    states = []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + x[:, t]
        states.append(state)
    return torch.stack(states, 1), state
