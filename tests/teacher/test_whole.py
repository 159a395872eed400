"""Whole programs cut by chance: kernels throughout, right, named as their plans say."""

import ast
import re
from collections import Counter

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import answer_text, read_answer
from kernelwright.programs.build import Builder
from kernelwright.programs.fragment import RELABELLING
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import synthetic_v1
from kernelwright.teacher.whole import write_whole
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import program_task

LINES = [line for line in synthetic_v1() if line["drawn"]["group"].startswith("level")][::40]


def kernels(source: str) -> list[str]:
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each) == "triton.jit" for each in node.decorator_list)
    ]


def chain() -> Program:
    """relu, softmax, relu, softmax: equal fragments in one program."""
    builder = Builder()
    x = builder.input(TensorType((6, 40)))
    for op, given in (("relu", {}), ("softmax", {"dim": -1})) * 2:
        (x,) = builder.call(op, input=x, **given)
    return builder.program([x])


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_programs_become_kernels_that_their_plans_name(line):
    program = parse(line["text"])
    found = write_whole(program, limit=2, seed=3)
    assert found, "every program of the benchmark has forms"
    for candidate in found:
        planned = [plan.kernel for plan in candidate.plan]
        commented = re.findall(r"^# Plan of (\w+)$", candidate.source, re.MULTILINE)
        assert planned == commented
        assert set(planned) <= set(kernels(candidate.source))
        assert read_answer(answer_text(candidate), origin="teacher").candidate == candidate


def signatures(source: str) -> dict[str, list[str]]:
    made = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: [each.arg for each in node.args.args] for node in made}


def wrapper_calls(source: str) -> list[ast.Call]:
    entry = next(n for n in ast.parse(source).body if getattr(n, "name", "") == "fused_operator")
    calls = [node for node in ast.walk(entry) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", "").startswith("fused_")]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_value_has_one_name_throughout(line):
    program = parse(line["text"])
    for candidate in write_whole(program, limit=3, seed=5):
        told = signatures(candidate.source)
        calls = wrapper_calls(candidate.source)
        once = Counter(call.func.id for call in calls)
        for call in calls:
            if once[call.func.id] == 1:
                assert told[call.func.id] == [each.id for each in call.args]
        made = [name for call in program.calls for name in call.outputs]
        for plan in candidate.plan:
            assert list(plan.part) == [name for name in made if name in plan.part]
        views = {n for c in program.calls if c.op in RELABELLING for n in c.outputs}
        planned = {name for plan in candidate.plan for name in plan.part}
        assert planned >= set(made) - views or max(once.values(), default=1) > 1


def test_what_a_form_makes_on_its_way_takes_no_name_of_the_program():
    """A loss becomes several values of its own, numbered behind the fragment's."""
    builder = Builder()
    x, y = builder.input(TensorType((6, 40))), builder.input(TensorType((6, 40)))
    for _ in range(4):
        (x,) = builder.call("softmax", input=x, dim=-1)
    (loss,) = builder.call("mse_loss", input=x, target=y, reduction="sum")
    program = builder.program([loss])
    with Judge("cpu", mode="pure", seed=4, budget_s=0.0) as judge:
        for candidate in write_whole(program, limit=6, seed=2):
            verdict = judge.verify(program_task(program), candidate)
            assert verdict.accepted, verdict.message


def test_the_same_seed_gives_the_same_and_another_one_others():
    program = chain()
    assert write_whole(program, limit=2, seed=1) == write_whole(program, limit=2, seed=1)
    sources = {c.source for seed in range(4) for c in write_whole(program, limit=1, seed=seed)}
    assert len(sources) > 2


def test_cuts_differ():
    found = write_whole(chain(), limit=12, seed=0)
    assert len({len(candidate.plan) for candidate in found}) > 1


def test_equal_fragments_are_one_kernel_and_others_have_names_of_their_own():
    with Judge("cpu", mode="pure", seed=4, budget_s=0.0) as judge:
        for candidate in write_whole(chain(), limit=4, seed=0):
            names = kernels(candidate.source)
            assert len(set(names)) == len(names)
            verdict = judge.verify(program_task(chain()), candidate)
            assert verdict.accepted, verdict.message


def test_programs_of_views_alone_are_copied_by_a_kernel():
    programs = [parse(line["text"]) for line in synthetic_v1() if line["level"] == 1]
    views = [each for each in programs if each.calls[0].op in RELABELLING]
    assert len({program.calls[0].op for program in views}) > 10
    for program in views:
        (found,) = write_whole(program, limit=1, seed=0)
        assert kernels(found.source) == [plan.kernel for plan in found.plan]
    builder = Builder()
    (turned,) = builder.call("permute", input=builder.input(TensorType((3, 5, 7))), dims=(2, 0, 1))
    program = builder.program([turned])
    (found,) = write_whole(program, limit=1, seed=0)
    with Judge("cpu", mode="pure", seed=4, budget_s=0.0) as judge:
        verdict = judge.verify(program_task(program), found)
    assert verdict.accepted, verdict.message


def test_a_program_with_a_call_that_has_no_form_has_no_candidate():
    builder = Builder()
    x = builder.input(TensorType((6, 40)))
    values, _ = builder.call("aten.sort.default", self=x, dim=1)
    assert write_whole(builder.program([values]), limit=2, seed=0) == []
