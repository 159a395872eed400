"""Modules of every kind: they are lowered and compute the same, or refused with a place."""

import copy
import math

import odd_modules
import pytest
import state_modules
import torch
import torch.utils._pytree as pytree
from odd_modules import LOWERED, REFUSED

from kernelwright.core.errors import UsageError
from kernelwright.programs.capture import structures
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.programs.text import parse, to_text


def same(ours, theirs):
    structures.register((ours, theirs))
    (a, ours_spec), (b, their_spec) = pytree.tree_flatten(ours), pytree.tree_flatten(theirs)
    assert ours_spec == their_spec
    for x, y in zip(a, b, strict=True):
        if isinstance(x, torch.Tensor):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            wide = torch.complex128 if x.dtype.is_complex else torch.float64
            assert torch.allclose(x.to(wide), y.to(wide), 1e-5, 1e-6)
        else:
            assert x == y or (math.isnan(x) and math.isnan(y))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOWERED)
def test_a_lowered_module_computes_and_changes_what_the_module_does(name):
    module, args, kwargs = copy.deepcopy(LOWERED[name])
    twin, theirs = copy.deepcopy((module, (args, kwargs)))
    attributes = {k: v for k, v in vars(module).items() if not k.startswith("_")}
    lowered = lower(module, args, kwargs)
    assert {k: v for k, v in vars(module).items() if not k.startswith("_")} == attributes
    with torch.no_grad():
        outputs = run(lowered.program, lowered.gather(module, args, kwargs))
        lowered.store(module, outputs)
        result = lowered.rebuild(outputs, args, kwargs)
        expected = twin(*theirs[0], **theirs[1])
    same((result, args, kwargs), (expected, *theirs))
    same(dict(module.named_buffers()), dict(twin.named_buffers()))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOWERED)
def test_everything_behind_lowering_takes_the_program(name):
    program = lower(*copy.deepcopy(LOWERED[name])).program
    assert parse(to_text(program)) == program
    assert program.flops() >= 0
    assert program.bytes_unfused() >= 0
    inputs = make_inputs(program, 0)
    for native, oracle in zip(
        run(program, inputs), run(program, inputs, torch.float64), strict=True
    ):
        assert native.shape == oracle.shape
    shape_variants(program, 2, 0, max_flops=1 << 20)


def test_a_state_that_is_returned_is_the_callers_own():
    module, args, _ = copy.deepcopy(LOWERED["state_returned"])
    lowered = lower(module, args)
    _, state = lowered.rebuild(run(lowered.program, lowered.gather(module, args)), args)
    assert state is args[1]
    assert (state.steps, len(state.parts["layers"])) == (1, 1)
    assert isinstance(state, odd_modules.State)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_a_cause_a_place_and_a_remedy(name):
    module, args, words = REFUSED[name]
    with pytest.raises(UsageError, match=words) as caught:
        lower(module, args)
    assert caught.value.remedy
    assert "<" not in (caught.value.file or "")
    if name not in ("iterator", "module_given", "scripted", "sparse"):
        assert caught.value.file in (odd_modules.__file__, state_modules.__file__)
        assert caught.value.line
