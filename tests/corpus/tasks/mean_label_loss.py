import torch


def get_inputs():
    labels = torch.randint(0, 10, (21,))
    labels[torch.randperm(21)[:5]] = -100
    return [torch.randn(21, 10), labels]


def fused_operator(logits, labels):
    """Mean over the labels that count, and their number."""
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)
    return loss, (labels != -100).sum()
