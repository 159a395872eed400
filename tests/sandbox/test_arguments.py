"""A kernel in the interpreter gets its arguments as plain data."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelwright.sandbox.guest.interpreter.arguments import HostCode, plain

X = torch.zeros(4)


@triton.jit
def same(value):
    return value


class Count(int):
    pass


class Mode(enum.Enum):
    RELU = "relu"


class Pair(NamedTuple):
    data: torch.Tensor
    size: int

    def method(self):
        return self.size


@dataclass(frozen=True)
class Sizes:
    warps: int = 4

    @property
    def block(self):
        return 32 * self.warps

    def method(self):
        return self.warps


def test_plain_data_stay_as_they_are():
    for value in (1, 2.5, "relu", None, torch.float32, tl.float32, (1, 2), [1, 2], {"n": 1}):
        assert plain(value) == value
        assert type(plain(value)) is type(value)
    assert plain((X, 1))[0] is X
    assert plain(same) is same
    assert plain(tl.constexpr(3)).value == 3


def test_values_of_own_classes_lose_their_methods():
    assert type(plain(Count(3))) is int
    assert plain(Mode.RELU).value == "relu"
    pair = plain(Pair(X, Count(4)))
    assert pair.data is X
    assert type(pair.size) is int
    assert not hasattr(pair, "method")
    sizes = plain(Sizes())
    assert (sizes.warps, sizes.block) == (4, 128)
    assert not hasattr(sizes, "method")
    assert plain(np.int64(7)) == 7


def test_a_class_may_not_lie_about_its_module():
    liar = type("Liar", (), {"__module__": "torch", "method": lambda _: 1, "size": 3})
    assert not hasattr(plain(liar()), "method")
    assert plain(liar()).size == 3


@pytest.mark.parametrize(
    "value", [len, np.maximum, Sizes, Sizes().method, lambda x: x, np.zeros(3), [np.zeros(3)]]
)
def test_functions_of_python_are_no_arguments(value):
    with pytest.raises(HostCode):
        plain(value)


def test_a_function_of_the_language_is_an_argument():
    assert callable(plain(tl.maximum))
