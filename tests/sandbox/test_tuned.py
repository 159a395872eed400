"""An autotuner's configurations take turns where a call of ours says so."""

import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from kernelwright.sandbox.guest.tuned import Turns

VALUES = (1, 2, 3)


class Kernel:
    """In place of a compiled kernel: notes the value that is launched."""

    def __init__(self, refused=()):
        self.refused, self.launched = refused, []
        self.arg_names = ["x", "VALUE"]
        self.fn = lambda: None

    def run(self, *_args, VALUE, **_kwargs):
        if VALUE in self.refused:
            raise OutOfResources(1, 0, "shared memory")
        self.launched.append(VALUE)


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(Autotuner, "run", Autotuner.run)  # restored afterwards
    turns = Turns()
    turns.install()
    return turns


def tuner(kernel, values=VALUES):
    def once(call, **_):
        call()
        return [1.0, 1.0, 1.0]

    configs = [triton.Config({"VALUE": value}) for value in values]
    return Autotuner(kernel, kernel.arg_names, configs, [], None, None, do_bench=once)


def launched(turns, kernel, number, values=VALUES):
    with turns.forced(number):
        tuner(kernel, values).run(torch.ones(2), grid=(1,), warmup=False)
    return kernel.launched


@pytest.mark.parametrize("number", range(5))
def test_the_configuration_of_a_turn_is_the_only_one_launched(turns, number):
    assert launched(turns, Kernel(), number) == [VALUES[number % len(VALUES)]]


def test_without_a_turn_all_are_tried_and_one_is_chosen(turns):
    assert launched(turns, Kernel(), None) == [*VALUES, VALUES[0]]


def test_a_configuration_that_does_not_fit_the_device_is_left_to_the_tuner(turns):
    assert launched(turns, Kernel(refused={2}), 1) == [1, 3, 1]


def test_the_configurations_are_as_before_afterwards(turns):
    kernel = Kernel()
    tuned = tuner(kernel)
    with turns.forced(1):
        tuned.run(torch.ones(2), grid=(1,), warmup=False)
    assert [config.kwargs["VALUE"] for config in tuned.configs] == [*VALUES]
