"""What holds for the candidates of every family: distinct, deterministic, legal, explained."""

import ast
import re

import pytest
import torch
from judging import faults
from sketch import Sketch

from kernelwright.core.plan import with_plans
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.teacher.ways import written
from kernelwright.teacher.writer import family, ways, write
from kernelwright.verify.static import findings


def pointwise() -> Program:
    builder = Builder()
    x = builder.input(TensorType((64, 1000)))
    bias = builder.input(TensorType((1000,)))
    (t,) = builder.call("add", input=x, other=bias)
    return builder.program(builder.call("gelu", input=t, approximate="tanh"))


def channels_last() -> Program:
    builder = Builder()
    x = builder.input(TensorType((4, 64, 30, 30), layout=Layout.CHANNELS_LAST))
    (t,) = builder.call("relu", input=x)
    return builder.program(builder.call("to_layout", input=t, memory_format="contiguous"))


def normalized() -> Program:
    builder = Builder()
    x = builder.input(TensorType((300, 768)))
    weight, bias = (builder.input(TensorType((768,))) for _ in range(2))
    return builder.program(
        builder.call("layer_norm", input=x, normalized_shape=(768,), weight=weight, bias=bias)
    )


def columns() -> Program:
    builder = Builder()
    x = builder.input(TensorType((20000, 64)))
    (t,) = builder.call("prod", input=x, dim=0)
    return builder.program((t, *builder.call("argmax", input=x, dim=0)))


def loss() -> Program:
    builder = Builder()
    x = builder.input(TensorType((2, 30000)))
    (y,) = builder.call("softmax", input=x, dim=-1)
    return builder.program((y, *builder.call("var", input=y, dim=-1)))


PROGRAMS = [pointwise(), channels_last(), normalized(), columns(), loss()]
IDS = ["pointwise", "channels_last", "normalized", "columns", "loss"]


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_candidates_are_distinct_and_the_same_for_a_seed(program):
    first = write(program, limit=8, seed=3)
    assert len({candidate.source for candidate in first}) == len(first) > 1
    assert write(program, limit=8, seed=3) == first


@pytest.mark.parametrize("draw", ["cost", "uniform"])
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_enough_candidates_are_all_that_there_are(program, draw):
    everything = list(written(ways(program)))
    drawn = write(program, limit=len(everything) + 1, seed=1, draw=draw)
    assert {c.source for c in drawn} == {c.source for c in everything}
    assert write(program, limit=len(everything) + 1, seed=1, draw=draw) == drawn


def test_favourites_lead_unless_all_are_drawn_alike():
    everything = list(written(ways(pointwise())))
    favourites = [write(pointwise(), limit=1, seed=seed)[0] for seed in range(40)]
    alike = [write(pointwise(), limit=1, seed=seed, draw="uniform")[0] for seed in range(40)]
    assert {c.source for c in favourites} == {everything[0].source}
    assert len({c.source for c in alike}) > len(everything) // 2


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_every_plan_names_a_kernel_and_stands_above_it(program):
    for candidate in write(program):
        tree = ast.parse(candidate.source)
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert len(set(names)) == len(names)
        for plan in candidate.plan:
            assert f"# Plan of {plan.kernel}\n#   fuses: {plan.fuses[0]}" in candidate.source
            assert plan.kernel in names
            assert plan.why
            assert not re.search(r"\d", plan.why)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_plans_name_tiles_as_the_code_has_them(program):
    for candidate in write(program, limit=20):
        for plan in candidate.plan:
            for name, size in plan.tiles.items():
                bounds = {"ELEMENTS": f"{size} // BLOCK", "SPLITS": f", {size} * "}
                assert bounds.get(name, f"{name}={size}") in with_plans(candidate.source, ())


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_sources_break_no_static_rule_and_keep_within_a_line(program):
    for candidate in write(program):
        assert findings(candidate.source, "pure", "fused_operator") == ()
        assert all(line.isascii() for line in candidate.source.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_kernels_compile_for_the_gpu_without_spilling(program):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    inputs = [
        torch.empty(
            given.type.shape,
            device="meta",
            memory_format=formats[given.type.rank]
            if given.type.layout is Layout.CHANNELS_LAST
            else torch.contiguous_format,
        )
        for given in program.inputs
    ]
    forms = {candidate.plan[0].loop: candidate for candidate in write(program, limit=20)}
    for candidate in forms.values():
        usage = compile_check(candidate.source, inputs).kernels
        assert set(usage) == {plan.kernel for plan in candidate.plan}
        assert all(kernel.spills == 0 for kernel in usage.values())


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_candidates_hold_at_odd_sizes_they_were_not_written_for(program):
    for variant in shape_variants(program, 2, seed=1, max_elements=1 << 12):
        assert faults(variant, write(program, limit=4)) == []


def test_a_program_with_an_operator_that_has_no_form_has_no_family():
    builder = Builder()
    x = builder.input(TensorType((2, 3, 8, 6)))
    foreign = builder.program(builder.call("interpolate", input=x, scale_factor=0.5, mode="area"))
    assert family(foreign) is None
    assert write(foreign) == []


def test_a_view_alone_is_a_copy():
    builder = Builder()
    x = builder.input(TensorType((4, 6)))
    views = builder.program(builder.call("transpose", input=x, dim0=0, dim1=1))
    assert family(views) == "pointwise"
    assert [plan.fuses for plan in write(views)[0].plan] == [("transpose",)]


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_the_guard_of_offsets_names_parameters_and_then_what_is_allocated(program):
    for candidate in write(program, limit=20):
        wrapper = ast.parse(candidate.source).body[-1]
        assert isinstance(wrapper, ast.FunctionDef)
        made = [argument.arg for argument in wrapper.args.args]
        guarded: set[str] = set()
        for line in wrapper.body:
            if isinstance(line, ast.Assign) and "torch.empty(" in (text := ast.unparse(line)):
                assert re.fullmatch(r"(\w+) = torch\.empty\(\(.*\), device=x0\.device, .*\)", text)
                made.append(text.split()[0])
            elif isinstance(line, ast.Assert):
                names = re.findall(r"(\w+)\.numel\(\)", ast.unparse(line))
                assert names == [name for name in made if name in names]
                guarded.update(names)
        assert guarded == set(made)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_arguments_stand_a_kind_a_line_and_no_other_line_is_broken(program):
    for candidate in write(program, limit=20):
        lines = candidate.source.splitlines()
        for node in ast.walk(ast.parse(candidate.source)):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                constants = [a.arg for a in node.args.args if a.annotation]
                assert constants == re.findall(r"(\w+): tl", lines[node.body[0].lineno - 3])
            elif isinstance(node, ast.Assign | ast.Return | ast.Assert):
                assert node.lineno == node.end_lineno


def test_empty_tensors_stay_in_pytorch():
    s = Sketch()
    x = s.input(4, 0, 3)
    for result in (s.cumsum(x, dim=1), s.prod(x, dim=1), s.relu(x)):
        assert write(s.program(result)) == []


def test_only_casts_of_float64_have_kernels():
    """Kernels compute in float32: a result in float64 would be less exact than PyTorch's."""
    s = Sketch()
    wide = s.to_dtype(s.input(4, 9), dtype="float64")
    assert write(s.program(wide), limit=1)
    assert write(s.program(s.square(wide))) == []
    assert write(s.program(s.sum(s.input(4, 9), dim=1, dtype="float64"))) == []
