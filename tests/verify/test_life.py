"""A candidate in use: the calls that the judge makes in a row."""

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.task import FunctionTask

CPU = torch.device("cpu")

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
    with Judge(JudgeOptions(device="cpu"), times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=ADDS))
    assert verdict.accepted, verdict.message


KEEPS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.maps = []

    def forward(self, x):
        y = x + 1.0
        self.maps.append(y)
        return y


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []
"""


def test_outputs_may_be_kept_where_the_reference_keeps_them(tmp_path):
    kept = ADDS.replace("x = torch.linalg.cholesky(x).contiguous()", "x = x.contiguous()").replace(
        "        return y", "        self.maps.append(y)\n        return y"
    )
    kept = kept.replace("    def forward", "    maps = []\n\n    def forward")
    path = tmp_path / "keeps.py"
    verdicts = []
    for text in (KEEPS, KEEPS.replace("self.maps.append(y)", "pass")):
        path.write_text(text)
        with Judge(JudgeOptions(device="cpu"), times=False) as judge:
            verdicts.append(judge.verify(load_task(path), Candidate(source=kept)))
    assert verdicts[0].accepted, verdicts[0].message
    assert verdicts[1].code is Code.ALIASED
    assert "keeps the outputs" in verdicts[1].message


@pytest.mark.slow
def test_positions_of_several_tables_are_not_mixed(tmp_path):
    """Another order of the values puts positions of the large table into the small table. There the
    reference has no result, and on a GPU its process would end."""
    path = tmp_path / "columns.py"
    path.write_text(COLUMNS)
    with Judge(JudgeOptions(device="cpu"), times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=KERNEL))
    assert verdict.accepted, verdict.message
    assert any(case.startswith("in a row/") for case in verdict.cases)


STATISTICS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(48, affine=False)

    def forward(self, x):
        return self.norm(torch.relu(x) * 0.5 + 1.0)


def get_inputs():
    return [torch.randn(6, 48)]


def get_init_inputs():
    return []
"""
NORMALIZES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x, mean, var, y, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    value = tl.load(x + rows * n_cols + cols, mask=mask, other=0.0)
    value = tl.where(mask, tl.maximum(value, 0.0) * 0.5 + 1.0, 0.0)
    average = tl.sum(value, axis=0, keep_dims=True) / n_rows
    apart = tl.where(mask, value - average, 0.0)
    squares = tl.sum(apart * apart, axis=0, keep_dims=True)
    tl.store(y + rows * n_cols + cols, apart / tl.sqrt(squares / n_rows + 1e-5), mask=mask)
    inside = cols < n_cols
    old = tl.load(mean + cols, mask=inside)
    tl.store(mean + cols, old + 0.1 * (average - old), mask=inside)
    old = tl.load(var + cols, mask=inside)
    tl.store(var + cols, old + 0.1 * (squares / (n_rows - 1) - old), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(48, affine=False)

    def forward(self, x):
        x, y = x.contiguous(), torch.empty_like(x)
        n_rows, n_cols = x.shape
        norm = self.norm
        norm_kernel[(triton.cdiv(n_cols, 16),)](
            x, norm.running_mean, norm.running_var, y, n_rows, n_cols,
            ROWS=triton.next_power_of_2(n_rows), COLS=16,
        )
        norm.num_batches_tracked += 1
        return y
"""


@pytest.fixture
def statistics(tmp_path):
    path = tmp_path / "statistics.py"
    path.write_text(STATISTICS)
    return load_task(path)


@pytest.mark.slow
def test_rounding_of_a_channel_that_hardly_varies_is_accepted_after_calls_that_change_state(
    statistics,
):
    """The second look starts from the state before the call. Without the second look, the judge
    with this seed rejects the kernel."""
    with Judge(JudgeOptions(device="cpu", seed=26), times=False) as judge:
        verdict = judge.verify(statistics, Candidate(source=NORMALIZES))
    assert verdict.accepted, verdict.message


def test_a_task_starts_from_the_state_that_calls_left(statistics):
    live, inputs = statistics.live(CPU), statistics.example(CPU)
    assert live.answer(inputs, 0).has_state
    now = statistics.starting_from(live.module_now(), CPU)
    mean = now.state(CPU)["norm.running_mean"]
    assert not torch.equal(mean, statistics.state(CPU)["norm.running_mean"])
    live.answer(inputs, 0)
    assert torch.equal(mean, now.state(CPU)["norm.running_mean"]), "a copy of its own"
    assert torch.equal(
        now.native_answer(inputs, 0, CPU)[0], live.answer(inputs, 0).outputs.native[0]
    )


def test_a_function_has_no_module():
    task = FunctionTask(name="double", get_inputs=lambda: [torch.ones(3)], function=lambda x: 2 * x)
    assert task.live(CPU).module_now() is None


SHIFTS = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = {act}
        {keep}

    def forward(self, x):
        before = torch.cat([{last}, x[:-1]])
        {store}
        return self.act(x) + 0.5 * before


def get_inputs():
    return [torch.randn(64, 16)]


def get_init_inputs():
    return []
"""
REMEMBERS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shift_kernel(x, last, y, n, C: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    inside = tl.load(x + at - C, mask=(at < n) & (at >= C), other=0.0)
    before = tl.where(at < C, tl.load(last + at, mask=at < C, other=0.0), inside)
    tl.store(y + at, tl.maximum(value, 0.0) + 0.5 * before, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {keep}

    def forward(self, x):
        x, last = x.contiguous(), {last}.contiguous()
        y, n = torch.empty_like(x), x.numel()
        shift_kernel[(triton.cdiv(n, 256),)](x, last, y, n, C=x.shape[1], BLOCK=256)
        {store}
        return y
"""
NOTHING = "torch.zeros(1, 16)"
ATTRIBUTE = "self.last = torch.zeros(1, 16)", "self.last", "self.last = x[-1:].clone()"
BUFFER = (
    "self.register_buffer('last', torch.zeros(1, 16), persistent=False)",
    "self.last",
    "self.last.copy_(x[-1:])",
)
IN_A_LIST = "self.last = [torch.zeros(1, 16)]", "self.last[0]", "self.last[0] = x[-1:].clone()"
GENERATOR = (ATTRIBUTE[0], "self.last", "self.last, self.rest = x[-1:].clone(), (i for i in x)")
CLOSURE = "(lambda act: lambda x: act(x))(nn.ReLU())"


IN_A_DICT = (
    "self.cache = {'last': torch.zeros(1, 16)}",
    "self.cache['last']",
    "self.cache['last'] = x[-1:].clone()",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", ["F.relu", "nn.ReLU()", CLOSURE], ids=["function", "part", "closure"]
)
@pytest.mark.parametrize(
    "state",
    [ATTRIBUTE, BUFFER, IN_A_LIST, IN_A_DICT],
    ids=["attribute", "buffer", "list", "dict"],
)
def test_a_candidate_that_remembers_the_last_call_is_accepted(tmp_path, act, state):
    """Each case starts anew, wherever the module keeps its state."""
    keep, last, store = state
    path = tmp_path / "shifts.py"
    path.write_text(SHIFTS.format(act=act, keep=keep, last=last, store=store))
    source = REMEMBERS.format(keep=keep, last=last, store=store)
    with Judge(JudgeOptions(device="cpu", seed=3), times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=source))
    assert verdict.accepted, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", ["F.relu", "nn.ReLU()", CLOSURE], ids=["function", "part", "closure"]
)
@pytest.mark.parametrize(
    "state",
    [ATTRIBUTE, BUFFER, IN_A_LIST, GENERATOR],
    ids=["attribute", "buffer", "list", "generator"],
)
def test_a_candidate_that_forgets_the_last_call_is_rejected(tmp_path, act, state):
    """The second look must not explain the missing row by the reference's start, which has none
    either. A module that cannot be copied gets no second look."""
    keep, last, store = state
    path = tmp_path / "shifts.py"
    path.write_text(SHIFTS.format(act=act, keep=keep, last=last, store=store))
    source = REMEMBERS.format(keep=keep, last=NOTHING, store=store)
    with Judge(JudgeOptions(device="cpu", seed=3), times=False) as judge:
        verdict = judge.verify(load_task(path), Candidate(source=source))
    assert not verdict.accepted
    assert verdict.code is Code.WRONG_VALUES, verdict.message
