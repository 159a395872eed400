import torch


def get_inputs():
    choice = torch.randint(0, 14, (22,))
    return [torch.nn.functional.one_hot(choice, 14).float(), torch.randn(14, 18)]


def fused_operator(one_hot, table):
    return [one_hot @ table]
