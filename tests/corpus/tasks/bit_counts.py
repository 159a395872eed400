import torch


def get_inputs():
    return [torch.randint(-(2**31), 2**31 - 1, (250,)), torch.randint(0, 2**40, (250,))]


def fused_operator(x, y):
    """Bits that differ in the lower 32, and whether their number is odd."""
    difference = (x ^ y) & 0xFFFFFFFF
    count = sum((difference >> bit) & 1 for bit in range(32))
    return count, (count & 1).to(torch.bool)
