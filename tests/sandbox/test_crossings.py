"""Each way in which values leave PyTorch or enter it is counted over a whole call."""

import ctypes

import numpy as np
import pytest
import torch

from kernelwright.sandbox.guest import crossings as module
from kernelwright.sandbox.guest.crossings import (
    MAX_ENTERED,
    MAX_ENTERING,
    MAX_FLOATS,
    MAX_VALUES,
    Crossings,
    counted,
)
from kernelwright.sandbox.guest.interpreter import memory
from kernelwright.sandbox.guest.watch import CallWatch


@pytest.fixture(autouse=True)
def storages(monkeypatch):
    """Storages tell what is read from them, during one test."""
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        for name in module._READING:
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, module._counting(getattr(kind, name)))
    counting = module._counting_tensor(torch.utils.dlpack.to_dlpack)
    monkeypatch.setattr(torch.utils.dlpack, "to_dlpack", counting)


def notes(call, *inputs, own=(), traces=False):
    """What a call of this function is said to let cross."""
    crossings = Crossings(inputs, own, traces_memory=traces)
    with counted(crossings), CallWatch(0.0, crossings):
        result = call(*inputs)
    crossings.end([result] if isinstance(result, torch.Tensor) else [])
    return {n for n in crossings.notes if n.startswith(("leaves", "converts"))}


FLOATS = torch.arange(100.0)
LEAVING = {
    "numpy": (lambda x: x.numpy(), "leaves.numpy"),
    "an array": (np.asarray, "leaves.__array__"),
    "a list": (lambda x: x.tolist(), "leaves.tolist"),
    "dlpack": (lambda x: x.__dlpack__(), "leaves.__dlpack__"),
    "numbers one by one": (lambda x: [x[i].item() for i in range(20)], "leaves.item"),
    "floats of elements": (lambda x: [float(x[i]) for i in range(20)], "leaves.item"),
    "truth values": (lambda x: [bool(x[i]) for i in range(20)], "leaves.item"),
    "bytes of the storage": (lambda x: list(x.untyped_storage()), "leaves.storage __iter__"),
    "a list of the storage": (
        lambda x: x.untyped_storage().tolist(),
        "leaves.storage tolist",
    ),
    "a pickled storage": (
        lambda x: x.untyped_storage().__reduce__(),
        "leaves.storage __reduce__",
    ),
    "a capsule": (lambda x: torch.utils.dlpack.to_dlpack(x), "leaves.to_dlpack"),
    "single bytes": (
        lambda x: [x.untyped_storage()[i] for i in range(100)],
        "leaves.storage __getitem__",
    ),
}


@pytest.mark.parametrize(("call", "note"), LEAVING.values(), ids=LEAVING)
def test_values_that_leave_are_noted_by_their_way(call, note):
    assert note in notes(call, FLOATS)


def test_a_few_floats_may_leave_and_no_more():
    def reads(count):
        return notes(lambda x: [x[i].item() for i in range(count)], FLOATS)

    assert reads(MAX_FLOATS) == set()
    assert reads(MAX_FLOATS + 1) == {"leaves.item"}


def test_more_integers_of_inputs_may_leave_and_integers_that_were_made_count_as_floats():
    lengths = torch.arange(200)
    assert notes(lambda n: n[:MAX_VALUES].tolist(), lengths) == set()
    assert notes(lambda n: n[: MAX_VALUES + 1].tolist(), lengths) == {"leaves.tolist"}
    assert notes(lambda x: x.view(torch.int32)[: MAX_FLOATS + 1].tolist(), FLOATS)
    copied = notes(lambda n: n[: MAX_FLOATS + 1].clone().tolist(), lengths)
    assert copied == {"leaves.tolist"}


def test_ways_add_up_over_a_call():
    half = MAX_FLOATS // 2 + 1
    once = notes(lambda x: x[:half].tolist(), FLOATS)
    twice = notes(lambda x: (x[:half].tolist(), x[half : 2 * half].numpy()), FLOATS)
    assert (once, twice) == (set(), {"leaves.numpy"})


def test_a_tensor_from_numpy_counts_where_it_is_used_or_returned():
    large, small = np.ones(MAX_ENTERING + 1, np.float32), np.ones(MAX_ENTERING, np.float32)
    assert notes(lambda: torch.from_numpy(large)) == {"leaves.enters again"}
    assert notes(lambda: torch.from_numpy(large).clone()) == {"leaves.enters again"}
    assert notes(lambda: torch.from_numpy(small).clone()) == set()


def test_a_list_may_become_a_small_tensor():
    assert notes(lambda: torch.tensor([1.0] * MAX_ENTERING)) == set()
    assert notes(lambda: torch.tensor([1.0] * (MAX_ENTERING + 1))) == {"leaves.enters again"}


def test_many_small_tensors_from_lists_add_up():
    def lifts(count):
        return notes(lambda: [torch.tensor([1.0] * MAX_ENTERING) for _ in range(count)])

    assert lifts(MAX_ENTERED // MAX_ENTERING) == set()
    assert lifts(MAX_ENTERED // MAX_ENTERING + 1) == {"leaves.enters again"}


def test_numbers_that_are_filled_in_one_by_one_are_counted():
    def fills(count):
        def call():
            y = torch.empty(count)
            for i in range(count):
                y[i].fill_(1.5)
            return y

        return notes(call)

    assert fills(MAX_ENTERING) == set()
    assert fills(MAX_ENTERING + 1) == {"leaves.enters again"}


def test_memory_of_the_call_itself_may_be_foreign():
    own = torch.from_numpy(np.ones(1000, np.float32))
    assert notes(lambda x: x.clone(), own) == set()
    assert notes(lambda: own.clone(), own=[own]) == set()
    assert notes(lambda: own.clone()) == {"leaves.enters again"}


@pytest.mark.parametrize(
    ("source", "to", "is_noted"),
    [
        (torch.float16, torch.float32, False),
        (torch.int32, torch.int64, False),
        (torch.float32, torch.float32, False),
        (torch.float32, torch.float16, True),
        (torch.float32, torch.int32, True),
        (torch.int32, torch.float32, True),
        (torch.float32, torch.bool, True),
        (torch.bool, torch.int32, True),
    ],
)
def test_a_copy_that_rounds_or_changes_the_kind_computes(source, to, is_noted):
    x, y = torch.ones(4, dtype=source), torch.empty(4, dtype=to)
    assert bool(notes(lambda x: y.copy_(x), x)) == is_noted


def test_a_copy_of_another_type_computes_and_a_copy_as_it_is_does_not():
    assert notes(lambda x: x.half(), FLOATS)
    assert notes(lambda x: x.view(10, 10).t().contiguous(), FLOATS) == set()


@pytest.mark.parametrize(("count", "is_noted"), [(MAX_FLOATS, False), (MAX_FLOATS + 1, True)])
def test_values_that_a_device_sends_to_the_host_are_counted(count, is_noted):
    on_device = torch.ones(count, device="meta")
    crossings = Crossings([on_device], traces_memory=False)
    crossings.before_operator("aten._to_copy.default", (on_device,), {"device": "cpu"})
    assert bool(crossings.notes) == is_noted


@pytest.mark.parametrize(("count", "is_noted"), [(MAX_ENTERING, False), (MAX_ENTERING + 1, True)])
def test_values_that_the_host_sends_to_a_device_are_counted(count, is_noted):
    crossings = Crossings([], traces_memory=False)
    crossings.before_operator("aten._to_copy.default", (torch.ones(count),), {"device": "meta"})
    assert bool(crossings.notes) == is_noted


def write_behind(tensor):
    """One byte of a tensor's memory, written by nobody whom PyTorch knows."""
    ctypes.memset(tensor.data_ptr(), 77, 1)


def test_memory_that_others_write_is_found_where_it_is_traced():
    def call(x):
        y = torch.zeros(200)
        write_behind(y)
        return y

    assert notes(call, FLOATS, traces=True) == {"leaves.written by others"}
    assert notes(call, FLOATS) == set()


def test_a_parameter_that_others_write_is_found_when_it_is_read():
    weight = torch.ones(4)

    def call():
        write_behind(weight)
        return weight.clone()

    assert notes(call, own=[weight], traces=True) == {"leaves.written by others"}


def test_operators_may_write_to_traced_memory():
    def call(x):
        y = torch.zeros(200)
        y[:100].copy_(x)
        y.mul_(2)
        return y.view(2, 100)

    assert notes(call, FLOATS, traces=True) == set()


def test_a_launch_may_write_to_what_it_is_given_and_to_nothing_else():
    own, other = torch.zeros(8), torch.zeros(8)
    crossings = Crossings([own, other], traces_memory=True)
    crossings.before_launch((own, 3))
    write_behind(own)
    write_behind(other)
    crossings.after_launch((own, 3))
    crossings.end([own])
    assert crossings.notes == {}
    crossings.end([other])
    assert crossings.notes == {"leaves.written by others": 1}


def test_a_small_part_of_a_large_storage_is_traced(monkeypatch):
    monkeypatch.setattr(memory, "MAX_TRACED_BYTES", 1 << 12)

    def call():
        y = torch.zeros(1 << 20)[5000:5100]
        write_behind(y)
        return y

    assert notes(call, traces=True) == {"leaves.written by others"}


def test_a_large_part_of_a_large_storage_is_sampled(monkeypatch):
    monkeypatch.setattr(memory, "MAX_TRACED_BYTES", 1 << 12)

    def call():
        y = torch.zeros(1 << 16)
        y.view(2, -1)
        ctypes.memset(y.data_ptr(), 1, 4 * y.numel())
        return y

    assert notes(call, traces=True) == {"leaves.written by others"}


def test_operators_may_write_to_any_part_of_a_large_storage(monkeypatch):
    monkeypatch.setattr(memory, "MAX_TRACED_BYTES", 1 << 12)

    def call():
        whole = torch.zeros(1 << 16)
        parts = [whole[i : i + 100] for i in range(0, 5000, 100)]
        for part in parts:
            part.fill_(1.0)
        parts[7].copy_(parts[3])
        return parts[7]

    assert notes(call, traces=True) == set()


def test_memory_that_no_operator_has_made_enters():
    storage = torch.UntypedStorage(4000)
    array = np.zeros(100, dtype=np.float32)

    def unknown():
        foreign = torch.UntypedStorage(4000)
        return torch.empty(0).set_(foreign, 0, (1000,), (1,))

    def kept():
        return torch.empty(0).set_(storage, 0, (1000,), (1,))

    assert notes(unknown, traces=True) == {"leaves.enters again"}
    assert notes(kept, traces=True) == set()
    assert notes(lambda: torch.from_numpy(array[:8]), traces=True) == set()


def test_memory_that_is_kept_from_earlier_is_traced():
    kept = torch.zeros(100)

    def call():
        write_behind(kept)
        return kept.view(4, 25)

    assert notes(call, traces=True) == {"leaves.written by others"}


def test_after_a_call_nothing_counts():
    crossings = Crossings([], traces_memory=False)
    with counted(crossings):
        pass
    FLOATS.untyped_storage().tolist()
    assert crossings.notes == {}


def test_a_launch_may_write_where_an_argument_points():
    own, other = torch.zeros(8), torch.zeros(8)
    table = torch.tensor([own.data_ptr()])
    crossings = Crossings([own, other, table], traces_memory=True)
    crossings.before_launch((table,))
    write_behind(own)
    crossings.after_launch((table,))
    crossings.end([own])
    assert crossings.notes == {}
    own.zero_()
    crossings.before_launch((table,))
    assert crossings.notes == {"leaves.written by others": 1}


def test_many_different_numbers_as_arguments_enter():
    crossings = Crossings([], traces_memory=False)
    for i in range(1000):
        crossings.before_launch((0.5, i, (3, 4)))
    assert crossings.notes == {}
    for i in range(MAX_ENTERED):
        crossings.before_launch((0.25 + i,))
    assert set(crossings.notes) == {"leaves.enters again"}
