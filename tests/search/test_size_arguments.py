"""Where sizes vary, kernels take sizes as arguments."""

import re
from types import SimpleNamespace

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs import reference
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.fragment import extract
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.search.sizes.arguments import with_size_arguments
from kernelwright.search.tune import Tuned, serving
from kernelwright.teacher.writer import write


def one_call(op, *shapes, **attributes):
    b = Builder()
    names = {"bmm": ("input", "mat2"), "softmax": ("input",)}.get(op, ("input", "weight"))
    inputs = {name: b.input(TensorType(shape)) for name, shape in zip(names, shapes, strict=True)}
    return b.program(b.call(op, **inputs, **attributes))


PROGRAMS = {
    "product": one_call("bmm", (4, 70, 90), (4, 90, 126)),
    "convolution": one_call("conv2d", (2, 32, 30, 30), (64, 32, 3, 3)),
    "depthwise": one_call("conv2d", (2, 32, 30, 30), (32, 1, 3, 3), groups=32),
    "transposed": one_call(
        "conv_transpose2d", (2, 32, 15, 15), (32, 16, 3, 3), stride=(2, 2), dilation=(2, 2)
    ),
    "rows": one_call("softmax", (2100, 1026), dim=-1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_become_arguments_and_what_triton_needs_stays(name):
    program = PROGRAMS[name]
    for candidate in write(program, limit=6):
        source = with_size_arguments(candidate).source
        for size in ("N", "C", "W", "OW"):
            assert f" {size}: tl.constexpr" not in source
        assert not re.search(r"^    .*\bBLOCK\w*,", source.partition("):")[0], re.M)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compile_with_size_arguments(name):
    program = PROGRAMS[name]
    inputs = reference.make_inputs(program, 1)
    for candidate in write(program, limit=3):
        assert compile_check(with_size_arguments(candidate).source, inputs).kernels


def test_a_candidate_without_constant_sizes_stays_itself():
    candidate = Candidate(source="def fused_operator(x):\n    return [x]\n")
    assert with_size_arguments(candidate) is candidate


class Judge:
    """Accepts what its rule accepts, and notes what it has judged, and at which sizes."""

    on_gpu, rules = False, SimpleNamespace(mode="pure")

    def __init__(self, accepts):
        self.accepts, self.judged = accepts, []

    def screen(self, task, candidates, **_options):
        self.judged += [(task.program.inputs, candidate.source) for candidate in candidates]
        return [
            SimpleNamespace(accepted=self.accepts(candidate.source), message=candidate.source)
            for candidate in candidates
        ]


def tuned_product():
    program = PROGRAMS["product"]
    (candidate,) = write(program, limit=1)
    fragment = extract(program, frozenset({0}))
    verdict = SimpleNamespace(accepted=True, message=candidate.source)
    return Tuned(
        fragment=fragment,
        family="matmul",
        candidates=(candidate,),
        verdicts=(verdict,),
        winner=0,
        reason="",
    )


@pytest.mark.parametrize("needs_constants", [False, True])
def test_a_kernel_for_all_sizes_has_arguments_where_these_are_right(needs_constants):
    tuned, other = tuned_product(), one_call("bmm", (4, 70, 90), (4, 90, 40))
    judge = Judge(lambda source: " N: tl.constexpr" in source or not needs_constants)
    kept = serving(tuned, [other], judge, None, is_whole=False)
    assert (" N: tl.constexpr" in kept.best.source) == needs_constants
    assert kept.verdicts[kept.winner].message == kept.best.source
    own, elsewhere = tuned.fragment.program.inputs, other.inputs
    assert [inputs for inputs, _ in judge.judged] == [own, elsewhere]
    assert judge.judged[-1] == (elsewhere, kept.best.source)


def test_without_a_kernel_for_all_sizes_pytorch_stays():
    tuned, other = tuned_product(), one_call("bmm", (4, 70, 90), (4, 90, 40))
    kept = serving(tuned, [other], Judge(lambda _source: False), None, is_whole=False)
    assert kept.best is None
    assert "no kernel serves all sizes" in kept.reason


def test_a_kernel_for_one_size_keeps_its_constants():
    tuned, judge = tuned_product(), Judge(lambda _source: False)
    assert serving(tuned, [], judge, None, is_whole=False) is tuned
    assert judge.judged == []
