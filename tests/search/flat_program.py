"""A program of three calls that one kernel computes."""

FLAT = """
import torch


def get_inputs():
    x0 = torch.randn((9, 33), dtype=torch.float32)
    x1 = torch.randn((33,), dtype=torch.float32)
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.mul(x0, x1)
    t1 = torch.tanh(t0)
    t2 = torch.softmax(t1, dim=1)
    return [t2]
"""
