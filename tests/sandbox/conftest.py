"""Guests for the tests of this folder."""

from collections.abc import Callable, Iterator

import pytest
from sample_candidates import HEADER

from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.shared.contract import GuestCall, Limits


@pytest.fixture
def guest() -> Iterator[Guest]:
    with shared("cpu").guest(Limits(wall_s=60)) as made:
        yield made


@pytest.fixture
def call(guest: Guest) -> Callable[..., object]:
    """Load a source and call it once: `call(source, *inputs, **options)`."""

    def run(source: str, *inputs: object, **options: object) -> object:
        guest.load(HEADER + source)
        return guest.run("candidate", GuestCall(inputs, seed=1, **options))

    return run
