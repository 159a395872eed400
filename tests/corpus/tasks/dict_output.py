import torch


def get_inputs():
    return [torch.randn(30, 70)]


def fused_operator(x0):
    return {"positive": torch.relu(x0), "negative": torch.relu(-x0)}
