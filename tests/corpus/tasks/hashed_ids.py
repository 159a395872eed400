import torch


def get_inputs():
    return [torch.randint(0, 1000, (40,)), torch.randn(97, 8)]


def fused_operator(ids, table):
    return [table[ids % 97]]
