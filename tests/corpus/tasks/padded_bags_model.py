import torch


class Model(torch.nn.Module):
    """The mean of the embeddings of each bag; id 0 is padding."""

    def __init__(self, words, width):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(-1)
        total = (self.table(ids) * keep).sum(1)
        return total / keep.sum(1).clamp(min=1)


def get_inputs():
    return [torch.randint(0, 21, (10, 7)) * (torch.rand(10, 7) > 0.3)]


def get_init_inputs():
    return [21, 12]
