"""The order in which the interpreter runs the programs of a launch, and races of programs."""

from dataclasses import replace

import pytest
import torch
from sample_candidates import HEADER

from kernelwright.sandbox.shared.contract import GuestCall, GuestFault
from kernelwright.sandbox.shared.manner import WATCHED

KERNELS = (
    HEADER
    + """
@triton.jit
def turns_plain(turns, count):
    turn = tl.load(count)
    tl.store(count, turn + 1)
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * 2 + tl.program_id(2)
    tl.store(turns + place, turn)


@triton.jit
def turns_counted(turns, count):
    turn = tl.atomic_add(count, 1)
    for _ in range(2):
        tl.atomic_add(count, 0)
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * 2 + tl.program_id(2)
    tl.store(turns + place, turn)


@triton.jit
def turns_beside_a_loop(turns, count):
    turn = tl.atomic_add(count, 1)
    k = 0
    while k < 2:
        k += 1
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * 2 + tl.program_id(2)
    tl.store(turns + place, turn)


@triton.jit
def is_early(count):
    return tl.atomic_add(count, 0) < 0


early = is_early


@triton.jit
def turns_by_another_name(turns, count):
    while early(count):
        pass
    turn = tl.load(count)
    tl.store(count, turn + 1)
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * 2 + tl.program_id(2)
    tl.store(turns + place, turn)


class Tools:
    @staticmethod
    @triton.jit
    def next_turn(count):
        while tl.atomic_add(count, 0) < 0:
            pass
        return tl.atomic_add(count, 1)


@triton.jit
def turns_by_a_tool(turns, count):
    turn = Tools.next_turn(count)
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * 2 + tl.program_id(2)
    tl.store(turns + place, turn)


def fused_operator(kind):
    kernels = (turns_plain, turns_counted, turns_beside_a_loop)
    kernel = (*kernels, turns_by_a_tool, turns_by_another_name)[kind]
    turns, count = torch.zeros(24, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernel[(3, 4, 2)](turns, count)
    return [turns]
"""
)
IN_ORDER = list(range(24))


def turns(guest, kind, seed):
    manner = replace(WATCHED, order_seed=seed)
    return guest.run("candidate", GuestCall([kind], seed=1, manner=manner)).outputs[0].tolist()


def test_a_seed_draws_another_order_in_which_each_program_runs_once(guest):
    guest.load(KERNELS)
    drawn = [turns(guest, 0, seed) for seed in (1, 2, 2)]
    assert turns(guest, 0, 0) == IN_ORDER
    assert drawn[0] != drawn[1] == drawn[2]
    assert all(sorted(order) == IN_ORDER != order for order in drawn)


def test_kernels_that_may_wait_for_each_other_keep_their_order(guest):
    """The first three kernels have no loop in which they could wait: the third counts beside a
    loop."""
    guest.load(KERNELS)
    assert [turns(guest, kind, 1) == IN_ORDER for kind in range(5)] == [False] * 3 + [True] * 2


SUMS = (
    HEADER
    + """
@triton.jit
def sum_by_stores(x, total):
    tl.store(total, tl.load(total) + tl.load(x + tl.program_id(0)))


@triton.jit
def sum_by_atomics(x, total):
    tl.atomic_add(total, tl.load(x + tl.program_id(0)))
    tl.load(total)


@triton.jit
def own_sums(x, total):
    i = tl.program_id(0)
    for k in range(2):
        tl.store(total + i, tl.load(total + i) + tl.load(x + i))


def fused_operator(x, kind):
    total = torch.zeros_like(x)
    (sum_by_stores, sum_by_atomics, own_sums)[kind][(4,)](x, total)
    return [total]
"""
)


def sums(guest, kind, *, traces_memory=True):
    manner = replace(WATCHED, traces_memory=traces_memory)
    call = GuestCall([torch.ones(4), kind], seed=1, manner=manner)
    return guest.run("candidate", call).outputs[0].tolist()


def test_a_program_must_not_load_what_another_program_stored(guest):
    guest.load(SUMS)
    with pytest.raises(GuestFault, match="Race: program 1 of the launch loads 1 elements"):
        sums(guest, 0)
    assert sums(guest, 0, traces_memory=False)[0] == 4


def test_programs_may_wait_for_each_other_and_load_what_they_stored_themselves(guest):
    guest.load(SUMS)
    assert sums(guest, 1)[0] == 4
    assert sums(guest, 2) == [2] * 4
