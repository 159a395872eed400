"""A candidate in use: the calls that the judge makes in a row."""

from kernelwright.core.candidate import Candidate
from kernelwright.verify.judge import Judge
from kernelwright.verify.tasks.load import load_task

COLUMNS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = nn.Embedding(3, 4)
        self.large = nn.Embedding(500, 4)

    def forward(self, rows):
        return self.small(rows[:, 0]) + self.large(rows[:, 1])


def get_inputs():
    return [torch.stack([torch.randint(0, size, (32,)) for size in (3, 500)], dim=1)]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(rows, stride, small, large, y, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    a = tl.load(small + tl.load(rows + stride * i) * BLOCK + j)
    b = tl.load(large + tl.load(rows + stride * i + 1) * BLOCK + j)
    tl.store(y + i * BLOCK + j, a + b)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = nn.Embedding(3, 4)
        self.large = nn.Embedding(500, 4)

    def forward(self, rows):
        rows = rows.contiguous()
        y = torch.empty(rows.shape[0], 4, device=rows.device)
        sum_kernel[(rows.shape[0],)](
            rows, rows.stride(0), self.small.weight, self.large.weight, y, BLOCK=4
        )
        return y
"""


REFUSED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x) + 1.0


def get_inputs():
    x = torch.randn(4, 4)
    return [x @ x.mT + 4 * torch.eye(4)]


def get_init_inputs():
    return []
"""
ADDS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = torch.linalg.cholesky(x).contiguous()
        y = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
"""


def test_an_order_of_values_that_the_reference_refuses_is_left_out(tmp_path):
    """In another order a positive definite matrix is none."""
    path = tmp_path / "refused.py"
    path.write_text(REFUSED)
    with Judge("cpu", times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=ADDS))
    assert verdict.accepted, verdict.message


def test_positions_of_several_tables_are_not_mixed(tmp_path):
    """Another order of the values puts positions of the large table into the small table. There the
    reference has no result, and on a GPU its process would end."""
    path = tmp_path / "columns.py"
    path.write_text(COLUMNS)
    with Judge("cpu", times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=KERNEL))
    assert verdict.accepted, verdict.message
    assert any(case.startswith("in a row/") for case in verdict.cases)
