import torch


def get_inputs():
    return [torch.randint(0, 50, (30,)), torch.randn(50, 64)]


def fused_operator(index, table):
    return [torch.nn.functional.embedding(index, table) * 2.0]
