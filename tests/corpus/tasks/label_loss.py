import torch


def get_inputs():
    return [torch.randn(16, 10), torch.randint(0, 10, (16,))]


def fused_operator(logits, labels):
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
    return [loss]
