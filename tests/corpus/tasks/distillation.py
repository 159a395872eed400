import torch


def get_inputs():
    student = torch.log_softmax(torch.randn(14, 19), dim=-1)
    return [student, torch.softmax(torch.randn(14, 19), dim=-1)]


def fused_operator(student, teacher):
    """Divergence of each row, from log-probabilities to probabilities."""
    return [torch.nn.functional.kl_div(student, teacher, reduction="none").sum(-1)]
