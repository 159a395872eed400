# what: the new token is written to the caches by the kernel that attends to them
# task: kv_cache_model

import torch
import triton
import triton.language as tl


@triton.jit
def attend_kernel(q, k, v, keys, values, y, slot, filled, capacity, width, D: tl.constexpr):
    b, d = tl.program_id(0), tl.arange(0, D)
    row = b * width + d
    new_key, new_value = tl.load(k + row, d < width, 0.0), tl.load(v + row, d < width, 0.0)
    query = tl.load(q + row, d < width, 0.0)
    largest, total = -float("inf"), 0.0
    mixed = tl.zeros((D,), tl.float32)
    for t in range(filled):
        place = (b * capacity + t) * width + d
        is_old = (t != slot) & (d < width)
        key = tl.where(t == slot, new_key, tl.load(keys + place, is_old, 0.0))
        value = tl.where(t == slot, new_value, tl.load(values + place, is_old, 0.0))
        score = tl.sum(key * query) / tl.sqrt(width.to(tl.float32))
        now = tl.maximum(largest, score)
        kept, share = tl.exp(largest - now), tl.exp(score - now)
        mixed = mixed * kept + value * share
        total = total * kept + share
        largest = now
    here = (b * capacity + slot) * width + d
    tl.store(keys + here, new_key, d < width)
    tl.store(values + here, new_value, d < width)
    tl.store(y + row, mixed / total, d < width)


class ModelNew(torch.nn.Module):
    def __init__(self, batch, capacity, width):
        super().__init__()
        self.register_buffer("keys", torch.zeros(batch, capacity, width))
        self.register_buffer("values", torch.zeros(batch, capacity, width))
        self.position = 0

    def forward(self, q, k, v):
        batch, capacity, width = self.keys.shape
        if not q.shape == k.shape == v.shape == (batch, width):
            raise ValueError(f"made for tokens of shape {(batch, width)}")
        slot = self.position % capacity
        self.position += 1
        y = torch.empty_like(q, memory_format=torch.contiguous_format)
        attend_kernel[(batch,)](
            q.contiguous(),
            k.contiguous(),
            v.contiguous(),
            self.keys,
            self.values,
            y,
            slot,
            min(self.position, capacity),
            capacity,
            width,
            D=triton.next_power_of_2(width),
        )
        return y
