"""A candidate finds a process like a user's, and everything is put back after its call."""

import sys
import time
from dataclasses import replace
from datetime import datetime

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.sandbox.guest import surroundings
from kernelwright.sandbox.guest.called import changed, described, fit, offset_copy
from kernelwright.sandbox.guest.disguise import disguised, stock_of
from kernelwright.sandbox.guest.instances import Held, Instances, overlap
from kernelwright.sandbox.guest.surroundings import surrounded
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.sandbox.shared.manner import WATCHED, Manner

DAY_S = 24 * 3600


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    monkeypatch.setattr(surroundings, "_left", {})
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "clock"),
    [
        *[(name, ()) for name in ("time", "monotonic", "perf_counter", "process_time")],
        *[("clock_gettime", (clock,)) for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC)],
    ],
)
def test_clocks_are_ahead_inside_and_come_back(monkeypatch, name, clock):
    for counter in surroundings._COUNTERS:
        for kind in (counter, f"{counter}_ns"):
            monkeypatch.setattr(time, kind, getattr(time, kind))
    surroundings.move_clocks_from_here_on()

    def ticks():
        return getattr(time, name)(*clock), getattr(time, f"{name}_ns")(*clock) / 1e9

    before = ticks()
    with surrounded(Manner(clock_s=DAY_S)):
        inside = ticks()
    after = ticks()
    for first, moved, last in zip(before, inside, after, strict=True):
        assert moved - first == pytest.approx(DAY_S, abs=30)
        assert last - first == pytest.approx(0, abs=30)


def test_clocks_move_again_where_their_module_was_hidden(monkeypatch):
    """The guest hides its tools after the start, and the moved clocks look them up by name."""
    for name in surroundings._CLOCKS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for days in (3, 40):
        before_s = time.time()
        with surrounded(Manner(clock_s=days * DAY_S)):
            assert time.time() - before_s == pytest.approx(days * DAY_S, abs=30)
        assert time.time() - before_s < 30
        assert sys.modules.keys().isdisjoint(surroundings._CLOCKS)


def test_the_date_follows_the_clocks_and_comes_back_after_an_exception():
    before, seen = datetime.now(), []

    def fail():
        with surrounded(Manner(clock_s=40 * DAY_S, num_threads=3)):
            seen.append((datetime.now() - before).days)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen[0] in (39, 40)
    assert (datetime.now() - before).days == 0
    assert torch.get_num_threads() == 1
    assert surroundings._ahead_s == 0


@pytest.mark.parametrize("has_grad", [True, False])
def test_grad_mode_and_threads_are_those_of_the_manner_and_come_back(has_grad):
    before = torch.is_grad_enabled()
    with surrounded(Manner(has_grad=has_grad, num_threads=4)):
        assert torch.is_grad_enabled() == has_grad
        assert torch.get_num_threads() == 4
    assert torch.is_grad_enabled() == before
    assert torch.get_num_threads() == 1


def test_a_manner_may_ask_for_inference_mode():
    for is_inference in (False, True):
        with surrounded(Manner(has_grad=True, is_inference=is_inference)):
            assert torch.is_inference_mode_enabled() == is_inference
    assert not torch.is_inference_mode_enabled()


def test_settings_that_a_call_leaves_are_noted_and_restored():
    with surrounded(Manner(num_threads=4)):
        torch.set_num_threads(2)
    assert torch.get_num_threads() == 1
    with surrounded(Manner(num_threads=3)), torch.set_grad_enabled(True):
        assert torch.get_num_threads() == 3
    assert surroundings.left_settings().keys() == {"torch.get_num_threads()"}


def test_a_seed_that_a_call_sets_is_noted_and_drawing_is_free(monkeypatch):
    monkeypatch.setattr(surroundings, "_left", {})
    torch.manual_seed(5)
    with surrounded(Manner()):
        torch.rand(3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(6)
    assert not surroundings.left_settings()
    with surrounded(Manner()):
        torch.manual_seed(7)
    assert surroundings.left_settings() == {
        "seeds of the generators": "[7] (set in a call with [5])"
    }


def test_a_manner_crosses_as_json():
    manner = Manner(is_watched=False, has_grad=True, num_threads=3, has_offsets=True, clock_s=9)
    assert Manner.from_json(manner.to_json()) == manner
    with pytest.raises(TypeError):
        Manner.from_json({"unheard_of": 1})


# -- in a guest

SEES = """\
import sys, time, torch
def fused_operator(x):
    ours = [m for m in sys.modules if m.partition(".")[0] == "kernelwright"]
    print("said", flush=True)
    facts = [len(ours), sys.stdout.fileno(), len(sys.argv), sys.stdout is sys.__stdout__]
    return [x, torch.tensor(facts), torch.tensor([x.storage_offset(), torch.get_num_threads()])]
"""


MODES = """\
import torch
def fused_operator(x, n):
    return [torch.tensor([torch.is_inference_mode_enabled(), x.requires_grad, n.requires_grad])]
"""


def test_a_candidate_sees_none_of_our_modules_and_may_print(guest):
    guest.load(SEES)
    ran = guest.run("candidate", GuestCall([torch.ones(3)], seed=1))
    assert ran.outputs[1].tolist()[:3] == [0, 1, 1]


def test_in_inference_mode_floating_point_inputs_require_gradients(guest):
    guest.load(MODES)
    for is_inference in (False, True):
        manner = replace(WATCHED, is_watched=False, is_inference=is_inference)
        ran = guest.run("candidate", GuestCall([torch.ones(3), torch.arange(3)], 1, manner=manner))
        assert ran.outputs[0].tolist() == [is_inference, is_inference, False]
        assert ran.changed_inputs == ()
    manner = replace(WATCHED, is_watched=False, has_grad=True, keeps_objects=True)
    ran = guest.run("candidate", GuestCall([torch.ones(3), torch.arange(3)], 1, manner=manner))
    assert ran.outputs[0].tolist() == [False, False, False]


def test_offsets_and_threads_reach_the_candidate_and_values_stay(guest):
    guest.load(SEES)
    x = torch.randn(4, 6).T[:, 1:]
    offsets = []
    for has_offsets in (False, True):
        manner = replace(WATCHED, has_offsets=has_offsets, num_threads=3)
        ran = guest.run("candidate", GuestCall([x], seed=1, manner=manner))
        assert torch.equal(ran.outputs[0], x)
        offset, num_threads = ran.outputs[2].tolist()
        assert num_threads == 3
        offsets.append(offset)
    assert offsets[0] == 0
    assert offsets[1] > 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("torch.set_num_threads(1)", "torch.get_num_threads()"),
        ("torch.set_grad_enabled(True)", "torch.is_grad_enabled()"),
    ],
)
def test_a_setting_that_a_call_changes_to_its_value_at_birth_shows(guest, change, name):
    guest.load(f"import torch\ndef fused_operator(x):\n    {change}\n    return [x]\n")
    ran = guest.run(
        "candidate", GuestCall([torch.ones(3)], seed=1, manner=replace(WATCHED, num_threads=4))
    )
    assert ran.process.settings[name] != guest.born.settings[name]
    assert guest.attest().settings[name] != guest.born.settings[name]


def test_a_grad_mode_that_is_set_at_import_shows(guest):
    call = "def fused_operator(x):\n    return [x]\n"
    guest.load(f"import torch\ntorch.set_grad_enabled(True)\n{call}")
    assert guest.attest().settings != guest.born.settings


def test_objects_are_kept_with_new_contents_when_they_fit(guest):
    guest.load(
        "import torch\nlast = []\n"
        "def fused_operator(x):\n    last.append(x)\n"
        "    return [x + 0, torch.tensor(len(last) > 1 and last[-1] is last[-2])]\n"
    )
    kept, same = replace(WATCHED, keeps_objects=True), []
    for value, manner in ((1, WATCHED), (2, kept), (3, WATCHED)):
        ran = guest.run("candidate", GuestCall([torch.full((3,), value)], seed=1, manner=manner))
        assert ran.outputs[0].tolist() == [value] * 3
        same.append(bool(ran.outputs[1]))
    assert same == [False, True, False]


def test_outputs_that_a_later_call_writes_are_reported_until_they_are_let_go(guest):
    guest.load(
        "import torch\nbuffer = torch.zeros(3)\n"
        "def fused_operator(x):\n    return [buffer.copy_(x)]\n"
    )
    x = torch.ones(3)
    assert guest.run("candidate", GuestCall([x], seed=1, is_held=True)).overwritten == ()
    assert guest.run("candidate", GuestCall([x], seed=1)).overwritten == (0,)
    guest.let_go()
    assert guest.run("candidate", GuestCall([x], seed=1)).overwritten == ()


def test_calls_whose_outputs_the_candidate_keeps_are_counted(guest):
    guest.load(
        "import torch\nkept = []\narena = torch.zeros(100)\n"
        "def fused_operator(x, how):\n"
        "    y = arena[:3] if how == 2 else x + 1\n"
        "    kept.extend([y] * (how == 1))\n"
        "    return [y, x + 2]\n"
    )
    for how, calls in ((0, 0), (1, 3), (2, 3)):
        for _ in range(3):
            guest.run("candidate", GuestCall([torch.ones(3), how], seed=1, is_held=True))
        assert guest.let_go() == calls


def test_memory_that_the_candidate_keeps_is_measured_after_each_held_call(guest):
    guest.load(
        "import torch\nkept = []\n"
        "def fused_operator(x):\n    kept.append(x.new_zeros(100))\n    return [x.clone()]\n"
    )
    call = GuestCall([torch.ones(3)], seed=1, is_held=True)
    assert [guest.run("candidate", call).kept_bytes for _ in range(3)] == [400, 800, 1200]
    guest.let_go()
    assert guest.run("candidate", replace(call, is_held=False)).kept_bytes == 0


def test_writes_to_memory_beside_an_input_are_reported(guest):
    guest.load(
        "import torch\n"
        "def fused_operator(x, at):\n"
        "    whole = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())\n"
        "    whole[at] ^= 255\n"
        "    return [x.clone()]\n"
    )
    manner = replace(WATCHED, has_offsets=True)
    changed = set()
    for _ in range(10):  # the memory before and behind an input is drawn, and may be empty
        for at in (0, -1):
            call = GuestCall([torch.zeros(3), at], seed=1, manner=manner)
            changed.add(guest.run("candidate", call).changed_inputs)
    assert changed == {(0,)}


def test_an_input_that_requires_gradients_afterwards_is_changed(guest):
    guest.load("def fused_operator(x, y):\n    y.requires_grad_()\n    return [x + 1]\n")
    call = GuestCall([torch.zeros(3), torch.zeros(3)], seed=1)
    assert guest.run("candidate", call).changed_inputs == (1,)
    kept = replace(call, manner=replace(WATCHED, is_inference=True))
    assert guest.run("candidate", kept).changed_inputs == ()


def test_outputs_that_autograd_refuses_are_described(guest):
    guest.load(
        "import torch\n"
        "def fused_operator(x, w):\n"
        "    with torch.inference_mode():\n"
        "        y = x + 1\n"
        "    with torch.enable_grad():\n"
        "        z = torch.ones(3, requires_grad=True)\n"
        "        return [y, z, x, z * w]\n"
    )
    inputs = [torch.zeros(3), torch.ones(3)]
    ran = guest.run("candidate", GuestCall(inputs, seed=1))
    assert (ran.inference, ran.grad) == ((0,), (1,))
    inference = replace(WATCHED, is_inference=True)
    ran = guest.run("candidate", GuestCall(inputs, seed=1, manner=inference))
    assert (ran.inference, ran.grad) == ((), ())


# -- what a call left


def test_shared_and_held_memory_is_described():
    x, weight = torch.zeros(4), torch.zeros(4)
    y = torch.zeros(8)
    facts = described("T", [y[:5], y[4:], weight[1:], x], [x, 3], [weight])
    assert facts["shared"] == [(0, 1)]
    assert facts["held"] == [2]
    assert facts["aliases"] == [(3, 0)]


def test_memory_overlaps_where_bytes_are_common():
    x = torch.zeros(10)
    assert overlap(x[:5], x[4:])
    assert not overlap(x[:5], x[5:])
    assert not overlap(x[:0], x)


def test_objects_fit_values_of_their_own_layout():
    x = torch.zeros(2, 3)
    assert fit([x, 1], [torch.ones(2, 3), 2])
    assert not fit([x], [torch.ones(3, 2).T])
    assert not fit([x], [torch.ones(2, 3).double()])
    assert not fit([x], [1])
    assert not fit([x], [x, x])


def test_a_copy_at_an_offset_has_values_strides_and_aligned_memory():
    x = torch.randn(4, 6).T[::2]
    y = offset_copy(x)
    assert torch.equal(x, y)
    assert y.stride() == x.stride()
    assert y.data_ptr() % 16 == 0
    offsets = {offset_copy(x).storage_offset() for _ in range(20)}
    assert len(offsets) > 5


def test_bytes_tell_whether_an_input_changed():
    x, y = torch.tensor([0.0, torch.nan]), torch.tensor([-0.0, torch.nan])
    flags = changed([x, x, 3], [x.clone(), y, 3], torch.device("cpu"))
    assert [bool(flag) for flag in flags] == [False, True, False]


# -- instances


def layer(init=None):
    return torch.nn.BatchNorm1d((init or {}).get("size", 3))


def test_instances_have_numbers_of_their_own_and_copies_weights_of_their_own():
    instances = Instances(layer)
    first, second = instances.construct({"size": 2}), instances.construct({})
    copy = instances.duplicate(second)
    assert [first, second, copy] == [0, 1, 2]
    instances.load(copy, ["weight"], [torch.full((3,), 7.0)], "copy")
    assert instances.get(second).weight.tolist() == [1, 1, 1]
    instances.drop(first)
    assert instances.entries(first) == []
    assert instances.construct({}) == 3


def test_a_function_has_no_instances():
    with pytest.raises(ValueError, match="no instances"):
        Instances(None).construct({})


@pytest.mark.parametrize("how", ["copy", "load_state_dict", "assign", "data"])
def test_weights_are_set_by_each_way_and_only_data_takes_new_memory_unseen(how):
    instances = Instances(layer)
    number = instances.construct({})
    weight = instances.get(number).weight
    address, version = weight.data_ptr(), weight._version
    values = [torch.full((3,), 7.0), torch.zeros(9), torch.zeros(1)]
    instances.load(number, ["weight", "bias", "unheard_of"], values, how)
    assert instances.get(number).weight.tolist() == [7, 7, 7]
    assert instances.get(number).bias.tolist() == [0, 0, 0]
    assert (instances.get(number).weight is weight) == (how != "assign")
    assert (weight.data_ptr() == address) == (how != "data")
    assert (weight._version == version) == (how in ("assign", "data"))


def test_moving_gives_other_memory_and_the_same_values():
    instances = Instances(layer)
    number = instances.construct({})
    before = [(t.data_ptr(), t.clone()) for _, _, t in instances.entries(number)]
    instances.move(number)
    for (address, value), (_, _, tensor) in zip(before, instances.entries(number), strict=True):
        assert tensor.data_ptr() != address
        assert torch.equal(tensor, value)


def test_plain_attributes_are_told_by_path_and_others_by_their_type():
    instances, model = Instances(None), torch.nn.Sequential(layer())
    model[0].calls, model.table = 3, [1]
    attributes = instances.attributes(instances.add(model))
    assert attributes["0.calls"] == 3
    assert attributes["table"] == {"type": "list"}
    assert "training" not in attributes


def test_tensors_without_memory_do_not_count_as_kept():
    """torch.compile keeps fake tensors, whose address raises. Lazy modules have no memory yet."""
    with FakeTensorMode():
        fake = torch.ones(1000)
    torch._C._set_throw_on_mutable_data_ptr(fake)
    alive = [fake, torch.nn.UninitializedParameter(), torch.empty(1000, device="meta")]
    held, output = Held(), torch.ones(3)
    before = held.add([output])
    kept = torch.ones(50)
    assert held.add([output]) == before + kept.nbytes
    del alive


def test_held_outputs_tell_writes_and_shared_memory():
    held, y = Held(), torch.tensor([1.0, torch.nan])
    held.add([y])
    assert held.overwritten([torch.zeros(2)]) == []
    assert held.overwritten([y[:1]]) == [0]
    y[0] = 2
    assert held.overwritten([torch.zeros(2)]) == [0]
    held.add([torch.zeros(2), z := torch.zeros(2)])
    assert held.overwritten([z]) == [0, 1]


def test_entries_are_read_without_a_method_of_the_modules():
    class Telling(torch.nn.Linear):
        def _tell(self, *_, **__):
            raise AssertionError

        named_parameters = named_buffers = named_modules = state_dict = _tell

    outer = torch.nn.Sequential(Telling(2, 1), torch.nn.BatchNorm1d(1))
    outer.append(outer[0])
    instances = Instances(None)
    number = instances.add(outer)
    names = [name for name, _, _ in instances.entries(number)]
    assert names == [
        *("0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"),
        *("1.running_mean", "1.running_var", "1.num_batches_tracked"),
    ]
    for how in ("copy", "data", "load_state_dict"):
        instances.load(number, ["1.bias"], [torch.ones(1)], how)
    assert outer[1].bias.item() == 1


def test_functions_of_ours_show_no_way_to_what_they_stand_in_for():
    def stock(x):
        return x

    @disguised(stock)
    def ours(x):
        return x

    assert ours.__name__ == "stock"
    assert not hasattr(ours, "__wrapped__")
    assert stock_of(ours) is stock
    assert stock_of(stock) is None


@pytest.mark.parametrize(
    "change",
    ["x.t_()", "x.unsqueeze_(0)", "x.resize_(2)", "x.set_(torch.ones(2, 2))", "x.data = -x"],
)
def test_another_layout_of_an_input_is_a_change(guest, change):
    guest.load(f"import torch\ndef fused_operator(x, y):\n    {change}\n    return [y.clone()]\n")
    inputs = [torch.ones(2, 2), torch.ones(2)]
    assert guest.run("candidate", GuestCall(inputs, seed=1)).changed_inputs == (0,)
