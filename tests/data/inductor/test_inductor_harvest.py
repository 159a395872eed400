"""Programs that Inductor cannot compile, told from failures of ours."""

import errno

import pytest
from torch._inductor.graph import GraphLowering

from kernelwright.core.errors import InfraError
from kernelwright.data.inductor import harvest as module
from kernelwright.data.inductor.harvest import NotHarvested, harvest
from kernelwright.data.inductor.source import InductorSource
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import parse

PROGRAM = parse("""
import torch


def get_inputs():
    x0 = torch.randn((16, 48), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.tanh(x0)
    return [t0]
""")


@pytest.fixture
def failing(monkeypatch):
    """Have Inductor fail: for programs with tanh alone, or for all."""
    plain = GraphLowering.codegen
    module._broken.cache_clear()

    def fail(error, *, always=False):
        def codegen(graph):
            if always or any("tanh" in str(node.target) for node in graph.graph.nodes):
                raise error
            return plain(graph)

        monkeypatch.setattr(GraphLowering, "codegen", codegen)

    yield fail
    module._broken.cache_clear()


def test_code_is_taken_with_the_names_of_its_inputs():
    found = harvest(PROGRAM)
    assert "tanh" in found.code
    assert "x0" in found.inputs


@pytest.mark.parametrize(
    ("placeholder", "name"), [("L_x0_", "x0"), ("L_args_0_", "x0"), ("s77", None)]
)
def test_inputs_have_the_program_s_names_whatever_pytorch_calls_them(placeholder, name):
    assert module._input_of(placeholder, PROGRAM) == name


def test_a_program_that_inductor_cannot_compile_is_refused(failing):
    failing(NotImplementedError("no such thing"))
    with pytest.raises(NotHarvested, match="NotImplementedError: no such thing"):
        harvest(PROGRAM)
    (written,) = InductorSource.of({}).answers(Request(program=PROGRAM), limit=1, seed=0)
    assert written.refused == "inductor: not compiled"


def test_a_full_disk_is_nothing_against_a_program(failing):
    failing(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(InfraError, match="No space left"):
        harvest(PROGRAM)


def test_an_inductor_that_compiles_nothing_is_our_failure(failing):
    failing(AttributeError("the driver has no such attribute"), always=True)
    with pytest.raises(InfraError, match=r"compiles nothing here: .* no such attribute"):
        InductorSource.of({}).answers(Request(program=PROGRAM), limit=1, seed=0)


def test_a_bug_of_ours_is_not_taken_for_anything_else(monkeypatch):
    monkeypatch.setattr(module, "_unfilled", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        harvest(PROGRAM)
