# what: a loop over the ids of a bag that passes over padding
# task: padded_bags_model

import torch
import triton
import triton.language as tl


@triton.jit
def bag_kernel(ids, table, y, size, width, BLOCK: tl.constexpr):
    bag, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    total, count = tl.zeros((BLOCK,), tl.float32), tl.program_id(0) * 0
    for place in range(size):
        word = tl.load(ids + bag * size + place)
        keeps = word != 0
        total += tl.load(table + word * width + i, (i < width) & keeps, 0.0)
        count += keeps.to(tl.int32)
    tl.store(y + bag * width + i, total / tl.maximum(count, 1).to(tl.float32), i < width)


class ModelNew(torch.nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)

    def forward(self, ids):
        (bags, size), width = ids.shape, self.table.embedding_dim
        y, block = self.table.weight.new_empty((bags, width)), triton.next_power_of_2(width)
        bag_kernel[(bags,)](ids.contiguous(), self.table.weight, y, size, width, BLOCK=block)
        return y
