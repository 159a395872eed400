"""In which forms a program is searched, and what records can tell of them."""

import pytest

from kernelwright.core import record
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import largest, same_attributes
from kernelwright.search.form_work import MAX_CANDIDATES, MIN_CANDIDATES, candidates_each
from kernelwright.search.forms import CPU_ELEMENTS, MOST_EXCESS, at_cpu_size, forms
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions


def summed(rows: int = 64) -> Program:
    """A linear layer of which only the sum over its features is used."""
    b = Builder()
    x, w = b.input(TensorType((rows, 48))), b.input(TensorType((96, 48)))
    (y,) = b.call("linear", input=x, weight=w)
    (y,) = b.call("sum", input=y, dim=(1,))
    return b.program(b.call("tanh", input=y))


def pooled() -> Program:
    b = Builder()
    x, w = b.input(TensorType((2, 4, 22, 22))), b.input(TensorType((6, 4, 3, 3)))
    (y,) = b.call("conv2d", input=x, weight=w, bias=b.input(TensorType((6,))))
    (y,) = b.call("avg_pool2d", input=y, kernel_size=2, stride=2)
    return b.program(b.call("relu", input=y))


def test_a_program_without_anything_to_rewrite_has_one_form():
    b = Builder()
    program = b.program(b.call("tanh", input=b.input(TensorType((4, 4)))))
    (form,) = forms(program, on_gpu=True)
    assert form.program == form.original == program
    assert (form.algebra, form.rewrites) == ((), ())


def test_the_rewritten_form_comes_first_and_the_original_last():
    first, last = forms(summed(), on_gpu=True)
    assert first.algebra == ("sum_of_product",)
    assert first.name == "contiguous, rewritten"
    assert last.program == last.original == first.original == summed()


def test_what_is_judged_at_other_sizes_too_is_not_searched_in_forms_that_fail_there():
    b = Builder()
    x, w = b.input(TensorType((2, 4, 22, 22))), b.input(TensorType((4, 6, 3, 3)))
    (y,) = b.call("conv_transpose2d", input=x, weight=w, stride=(2, 2))
    (y,) = b.call("mean", input=y, dim=(2, 3))
    program = b.program(b.call("tanh", input=y))
    assert "sum_of_convolution" in forms(program, on_gpu=False)[0].algebra
    (form,) = forms(program, on_gpu=False, at_other_sizes=True)
    assert form.program == program
    assert forms(summed(), on_gpu=False, at_other_sizes=True)[0].algebra == ("sum_of_product",)


def rotated(rows: int, columns: int = 128, heads: int = 4) -> Program:
    """The halves of each row exchanged, as rotary embeddings do."""
    b = Builder()
    x = b.input(TensorType((heads, rows, columns)))
    halves = b.call("split", input=x, split_size_or_sections=columns // 2, dim=-1)
    (y,) = b.call("cat", tensors=tuple(reversed(halves)), dim=-1)
    return b.program(b.call("add", input=x, other=y))


def test_where_a_tensor_is_split_stays_when_the_program_is_scaled_down():
    """Kernels spell that place out, so they would be wrong at smaller sizes."""
    form = forms(rotated(1024, heads=32), on_gpu=False)[-1]
    original, program = at_cpu_size(form)
    assert largest(original) <= MOST_EXCESS * CPU_ELEMENTS
    assert same_attributes(original, form.original)
    assert same_attributes(program, form.program)


def test_where_that_is_too_large_all_sizes_shrink():
    form = forms(rotated(2, columns=1 << 20, heads=2), on_gpu=False)[-1]
    original, _ = at_cpu_size(form)
    assert largest(original) <= CPU_ELEMENTS


def test_forms_share_the_time_that_candidates_are_planned_by():
    assert candidates_each(90.0, 10) == 6
    assert candidates_each(45.0, 10) == MIN_CANDIDATES
    assert candidates_each(180.0, 0) == candidates_each(180.0, 1) == MAX_CANDIDATES


def test_each_is_searched_in_both_layouts_and_records_tell_the_kinds_apart():
    found = forms(pooled(), on_gpu=True)
    algebra, rewrites = ("pool_of_convolution",), ("split_conv_bias",)
    assert [(form.algebra, form.rewrites) for form in found] == [
        (algebra, (*rewrites, "channels_last")),
        (algebra, rewrites),
        ((), (*rewrites, "channels_last")),
        ((), rewrites),
    ]
    assert [form.layout for form in found] == ["channels_last", "contiguous"] * 2


def test_a_product_whose_factor_lies_the_other_way_is_searched_with_a_copy_of_it():
    b = Builder()
    x, y = b.input(TensorType((512, 512))), b.input(TensorType((512, 512)))
    program = b.program(b.call("matmul", input=x, other=y))
    assert [form.rewrites for form in forms(program, on_gpu=True)] == [("k_major",), ()]
    assert [form.rewrites for form in forms(program, on_gpu=False)] == [()]


def test_pointwise_operators_that_go_are_nothing_to_compare():
    b = Builder()
    (y,) = b.call("softmax", input=b.input(TensorType((4, 4))), dim=1)
    for _ in range(2):
        (y,) = b.call("relu", input=y)
    (form,) = forms(b.program(b.call("exp", input=y)), on_gpu=True)
    assert form.algebra == ("idle_activation",)
    assert [call.op for call in form.program.calls] == ["softmax", "exp"]


def test_a_form_is_scaled_down_together_with_the_original():
    (large, _) = forms(summed(1 << 20), on_gpu=False)
    original, program = at_cpu_size(large)
    assert original.inputs == program.inputs
    assert original.inputs[0].type.shape[0] < 1 << 12
    assert [c.op for c in program.calls] == [c.op for c in large.program.calls]
    assert [c.op for c in original.calls] == ["linear", "sum", "tanh"]


def test_what_cannot_be_judged_small_is_not_rewritten_without_a_gpu(monkeypatch):
    monkeypatch.setattr("kernelwright.search.forms.at_cpu_size", lambda _: None)
    (form,) = forms(summed(), on_gpu=False)
    assert form.algebra == ()


FLAT = """
import torch
import torch.nn.functional as F


def get_inputs():
    x0 = torch.randn((600, 48), dtype=torch.float32)
    x1 = torch.randn((96, 48), dtype=torch.float32)
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = F.linear(x0, x1)
    t1 = torch.div(t0, 2)
    t2 = torch.sum(t1, dim=(1,))
    return [t2]
"""


@pytest.mark.slow
def test_a_rewritten_whole_is_judged_against_the_original(tmp_path, monkeypatch):
    """At the smaller size that programs have which are too large for the interpreter."""
    monkeypatch.setattr("kernelwright.search.contest.wholes.CPU_LIMIT_BYTES", 0)
    file = tmp_path / "target.py"
    file.write_text(FLAT)
    options = SearchOptions(policy="teacher", device="cpu", mode="pure", budget_s=600)
    result = optimize_target(str(file), options, out=tmp_path)
    assert result["verdict"]["accepted"]
    assert result["algebra"] == ["sum_of_product"]
    assert result["rewrites"] == []
    assert result["forms"] == []
    program = next(r for r in record.read(tmp_path / "records.jsonl") if r["record"] == "program")
    assert max(call["flops"] for call in program["calls"]) < result["flops"] / 10
