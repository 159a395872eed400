"""Figures of `synth`: counted right, and a program that is not what it says is noticed."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.synth.recipe import DrawRecipe, ProgramBounds, Quality, SizeLimits
from kernelwright.synth.space import space_record
from tools.sampler import figures as synth
from tools.sampler.executed import Executed, execute
from tools.sampler.figures import FiguresPlan, programs
from tools.sampler.spread import SpreadCounts, found_of, possible_pairs

RECIPE = DrawRecipe(
    operators=("relu", "sum", "mm"),
    dtypes=("float32",),
    max_rank=2,
    sizes=SizeLimits(high=8),
    bounds=ProgramBounds(bytes=(0, 1 << 20)),
)


def product() -> Program:
    builder = Builder()
    a, b = builder.input(TensorType((4, 3))), builder.input(TensorType((3, 5)))
    (c,) = builder.call("mm", input=a, mat2=b)
    (d,) = builder.call("relu", input=c)
    return builder.program(builder.call("sum", input=d, dim=(1,)))


def test_counts_are_those_of_the_programs() -> None:
    spread, space = SpreadCounts(), space_record(RECIPE)
    spread.add(product(), space["attributes"])
    found = found_of(spread, space)
    assert found["operators_missing"] == []
    assert found["calls"] == {"mm": 1, "relu": 1, "sum": 1}
    possible = set(possible_pairs(space))
    assert ("relu", "sum") in possible
    assert set(spread.pairs) == {("mm", "relu"), ("relu", "sum")} < possible
    assert found["pairs_missing"] == len(possible) - 2
    assert "sum keepdim True" in found["values_missing"]


@pytest.mark.slow
def test_programs_are_drawn_run_and_counted() -> None:
    record = programs(FiguresPlan(recipe=RECIPE, level=2, num=30, device="cpu"), 1, lambda _: None)
    assert record["executed"]["programs"] == 30 - sum(record["refused"].values())
    assert record["executed"]["wrong"] == []
    assert record["spread"]["operators_missing"] == []
    assert record["draw_cpu_ms"] > 0


@pytest.mark.slow
def test_pairs_that_no_program_had_are_told_impossible_from_rare() -> None:
    recipe = replace(RECIPE, operators=("relu", "argmax", "mm"), quality=Quality(ranges=False))
    record = programs(FiguresPlan(recipe=recipe, level=2, num=3), 1, lambda _: None)
    missing = {pair["pair"]: pair for pair in record["missing_pairs"]}
    assert len(missing) == record["spread"]["pairs_missing"] > 0
    assert missing["relu", "argmax"]["alone"]
    assert not missing["relu", "relu"]["alone"]  # the second does nothing
    assert all(pair["expected"] <= 3 for pair in missing.values())
    assert "missing_pairs" not in programs(
        FiguresPlan(recipe=RECIPE, level=2, num=3), 1, lambda _: None
    )


def spoilt(program: Program, index: int, **changes: Any) -> Program:
    calls = list(program.calls)
    calls[index] = replace(calls[index], **changes)
    return Program(program.inputs, tuple(calls), program.outputs)


@pytest.mark.parametrize("wrong", [TensorType((4, 6)), TensorType((4, 5), "float16")])
def test_a_result_of_another_type_is_noticed(wrong: TensorType) -> None:
    found = Executed()
    execute(product(), "cpu", found)
    assert (found.wrong, found.calls, found.counted) == ([], 3, 1)
    execute(spoilt(product(), 0, types=(wrong,)), "cpu", found)
    assert found.wrong


def test_other_flops_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Executed()
    monkeypatch.setattr(type(product().calls[0].operator), "flops", lambda *_: 7)
    execute(product(), "cpu", found)
    assert any("FLOPs" in text for text in found.wrong)


def test_what_finds_no_memory_among_others_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def crowded(program: Program, device: str, found: Executed) -> None:
        raise torch.OutOfMemoryError

    plan = FiguresPlan(recipe=RECIPE, level=2, num=6, device="cpu")
    with monkeypatch.context() as patch:
        patch.setattr(synth, "execute", crowded)
        part = synth._part((plan, 0, 6))
        assert part.executed.programs == 0
        assert synth._alone(plan, part.crowded).too_large == len(part.crowded) > 0
    assert synth._alone(plan, part.crowded).programs == len(part.crowded)


def test_a_pair_is_looked_for_in_programs_of_the_two_alone() -> None:
    recipe = replace(RECIPE, operators=("relu", "argmax", "sum"), dtypes=("float32",))
    assert synth.has_pair_alone(recipe, ("relu", "argmax"))
    assert not synth.has_pair_alone(recipe, ("argmax", "relu"))
