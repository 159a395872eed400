"""What a guest reports about an honest call, and about a sloppy one."""

import math
from dataclasses import replace

import pytest
import torch
from sample_candidates import ADD, HEADER

from kernelwright.core.errors import InfraError
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault
from kernelwright.sandbox.shared.manner import WATCHED
from kernelwright.verify.tasks.init_inputs import init_inputs_text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_a_good_kernel_gives_the_right_bytes(guest, dtype):
    x, y = torch.randn(1000).mul(50).to(dtype), torch.randn(1000).mul(50).to(dtype)
    assert guest.load(ADD).kernels == ("add",)
    ran = guest.run("candidate", GuestCall([x, y], seed=1))
    assert torch.equal(ran.outputs[0], x + y)
    assert ran.structure == "[T]"
    assert not ran.changed_inputs
    assert not ran.aliases


def test_several_sources_run_in_turn_in_one_guest(guest):
    x = torch.randn(10)
    for name, factor in (("two", 2.0), ("three", 3.0)):
        guest.load(f"def fused_operator(x):\n    return [x * {factor}]\n", name)
    assert torch.equal(guest.run("two", GuestCall([x], seed=1)).outputs[0], x * 2)
    assert torch.equal(guest.run("three", GuestCall([x], seed=1)).outputs[0], x * 3)


def test_launches_are_counted_not_definitions(guest):
    guest.load(ADD + "\n@triton.jit\ndef decoy(x_ptr):\n    tl.store(x_ptr, 0.0)\n")
    ran = guest.run("candidate", GuestCall([torch.randn(700), torch.randn(700)], seed=1))
    assert ran.launches == {"add": 1}


def test_a_skipped_kernel_leaves_its_output_poisoned(guest):
    guest.load(ADD)
    inputs = [torch.randn(300), torch.randn(300)]
    ran = guest.run("candidate", GuestCall(inputs, seed=1, poison=7.5, skip_kernels=["add"]))
    assert torch.equal(ran.outputs[0], torch.full((300,), 7.5))
    assert ran.launches == {}


def test_aten_operators_are_recorded(call):
    ran = call("def fused_operator(x):\n    return [torch.relu(x) @ x]\n", torch.randn(4, 4))
    by_watch = {name: n for name, n in ran.operators.items() if "::" not in name}
    assert by_watch == {"aten.relu.default": 1, "aten.mm.default": 1}


@pytest.mark.parametrize("poison", [math.nan, 123.0], ids=["nan", "finite"])
def test_an_unwritten_output_shows_the_poison(call, poison):
    body = "def fused_operator(x):\n    return [torch.empty_like(x), x.new_empty(2)]\n"
    ran = call(body, torch.randn(4), poison=poison)
    for output in ran.outputs:
        assert torch.equal(output, torch.full_like(output, poison)) or output.isnan().all()
    assert ran.outputs[0].isnan().all() == math.isnan(poison)


def test_memory_that_a_tensor_grows_by_shows_the_poison(call):
    body = (
        "def fused_operator(x):\n    return [x.new_zeros(2).resize_(2, 3), x.clone().resize_(2)]\n"
    )
    grown, shrunk = call(body, torch.ones(4), poison=123.0).outputs
    assert grown.flatten().tolist() == [0.0] * 2 + [123.0] * 4
    assert shrunk.tolist() == [1.0] * 2


@pytest.mark.parametrize(
    "change", ["x.copy_(x.clone())", "x.note = 1", "x.requires_grad_()", "x.unsqueeze_(0)"]
)
def test_a_change_of_an_input_that_keeps_its_values_is_reported(call, change):
    ran = call(
        f"def fused_operator(x):\n    {change}\n    return [x.new_zeros(2)]\n", torch.ones(4)
    )
    assert ran.changed_inputs == (0,)


def test_inputs_with_equal_values_are_one_tensor_where_the_call_says_so(call):
    body = "def fused_operator(x, y, z):\n    return [x is y, y is z]\n"
    inputs = torch.ones(4), torch.ones(4), torch.zeros(4)
    assert call(body, *inputs).structure == "[False,False]"
    manner = replace(WATCHED, is_same=True)
    assert call(body, *inputs, manner=manner).structure == "[True,False]"


def test_a_changed_input_is_reported(call):
    ran = call("def fused_operator(x, y):\n    return [x + y.zero_()]\n", *torch.randn(2, 8))
    assert ran.changed_inputs == (1,)


def test_the_hosts_inputs_cannot_be_changed(call):
    x = torch.randn(8)
    before = x.clone()
    call("def fused_operator(x):\n    return [x.zero_()]\n", x)
    assert torch.equal(x, before)


def test_an_aliased_output_is_reported(call):
    body = "def fused_operator(x, y):\n    return [x + 1, y.view(-1)[2:]]\n"
    ran = call(body, torch.randn(8), torch.randn(2, 4))
    assert ran.aliases == ((1, 1),)


def test_strides_survive_in_both_directions(call):
    x = torch.randn(6, 8).t()[::2]
    body = "def fused_operator(x):\n    assert x.stride() == (2, 8)\n    return [x.clone().t()]\n"
    ran = call(body, x)
    assert torch.equal(ran.outputs[0], x.t())
    assert ran.outputs[0].stride() == x.clone().t().stride()


def test_plain_values_pass_as_inputs(call):
    ran = call("def fused_operator(x, k, flag):\n    return x * k, flag\n", torch.ones(2), 3, None)
    assert torch.equal(ran.outputs[0], torch.full((2,), 3.0))
    assert ran.structure == "(T,None)"


@pytest.mark.parametrize(
    ("result", "structure"),
    [
        ("Pair((x, x))", "Pair"),
        ("Point(x, 1)", "(T,1)"),
        ("{Key('a'): x}", "{Key a:T}"),
        ("{Name.FIRST: x}", "{a:T}"),
        ("torch.max(x.view(1, 2), -1)", "(T,T)"),
        ("{'a': x, 1: x}", "{a:T,1:T}"),
    ],
)
def test_a_container_with_methods_of_its_own_does_not_pass_for_a_plain_one(call, result, structure):
    body = (
        "from collections import namedtuple\n"
        "Point = namedtuple('Point', 'x y')\n"
        "from enum import Enum\n"
        "class Key(str):\n    __hash__ = lambda self: 7\n"
        "class Name(str, Enum):\n    FIRST = 'a'\n"
        "class Pair(tuple):\n    def __getitem__(self, i):\n        return None\n"
        f"def fused_operator(x):\n    return {result}\n"
    )
    assert call(body, torch.ones(2)).structure == structure


def test_a_tensor_subclass_does_not_pass_for_a_tensor(call):
    body = (
        "class Lazy(torch.Tensor):\n    pass\n"
        "def fused_operator(x):\n    return [x.as_subclass(Lazy)]\n"
    )
    assert call(body, torch.ones(2)).structure == "[Lazy]"


def test_the_seed_decides_random_numbers(guest):
    guest.load("import torch\ndef fused_operator():\n    return [torch.rand(4)]\n")
    first, again, other = (
        guest.run("candidate", GuestCall([], seed=s)).outputs[0] for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_inputs_lie_at_new_addresses_each_call(guest):
    guest.load("import torch\ndef fused_operator(x):\n    return [torch.tensor(x.data_ptr())]\n")
    x = torch.randn(5000)
    addresses = {int(guest.run("candidate", GuestCall([x], seed=1)).outputs[0]) for _ in range(2)}
    assert len(addresses) == 2


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("x = (\n", "load", 1),
        ("import torch\nraise ValueError('no')\n", "load", 2),
        ("def other(): pass\n", "missing_entry", None),
    ],
    ids=["syntax", "raises", "no entry"],
)
def test_a_source_that_does_not_load_says_where(guest, source, kind, line):
    with pytest.raises(GuestFault) as caught:
        guest.load(source)
    assert (caught.value.kind, caught.value.line) == (kind, line)
    assert guest.alive


def test_an_error_in_a_kernel_names_its_line(guest):
    source = ADD.replace("x + y", "x + missing")
    guest.load(source)
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall([torch.randn(4), torch.randn(4)], seed=1))
    assert caught.value.kind == "runtime"
    assert "missing" in source.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("json.loads('{')", r"\(raised in json.decoder, \d+\)$"),
        ("len(3)", r"has no len\(\)$"),
    ],
    ids=["a library", "its own code"],
)
def test_an_error_as_a_candidate_runs_says_whose_code_raised_it(guest, call, said):
    guest.load(f"import json\ndef fused_operator():\n    return [{call}]\n")
    with pytest.raises(GuestFault, match=said) as caught:
        guest.run("candidate", GuestCall([], seed=1))
    assert caught.value.line == 3


MODEL = (
    HEADER
    + """
class ModelNew(torch.nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2, bias=bias)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.linear(x)
"""
)


def test_a_model_is_constructed_under_its_seed(guest):
    guest.load(MODEL, init={"arguments": "([3], {'bias': False})", "seed": 5})
    torch.manual_seed(5)
    reference = torch.nn.Linear(3, 2, bias=False)
    x = torch.randn(4, 3)
    assert torch.equal(
        guest.run("candidate", GuestCall([x], seed=0)).outputs[0], reference(x).detach()
    )


def test_init_arguments_come_from_the_reference_without_its_model(guest):
    reference = (
        "import torch\nHALF = 2\nWIDTH = HALF\nWIDTH += 1\n"
        "def twice(n):\n    return n, n\nPAIR = twice(2)\nSHAPE = twice(WIDTH)\n"
        "class Model(torch.nn.Module):\n    answers = 42\n"
        "def get_init_inputs():\n    return [WIDTH, BIAS]\nBIAS = True\n"
    )
    text = init_inputs_text(reference)
    assert "answers" not in text
    assert "twice" not in text
    loaded = guest.load(MODEL, init={"init_inputs": text})
    assert loaded.entry == "ModelNew"
    assert guest.state("candidate")["linear.weight"].meta.shape == (2, 3)


def test_state_is_loaded_by_name_and_buffers_are_read_after_the_call(guest):
    guest.load(MODEL, init={"arguments": "([3], {})"})
    weight, bias, x = torch.randn(2, 3), torch.randn(2), torch.randn(4, 3)
    guest.load_state("candidate", {"linear.weight": weight, "linear.bias": bias})
    output = guest.run("candidate", GuestCall([x], seed=0)).outputs[0]
    torch.testing.assert_close(output, torch.nn.functional.linear(x, weight, bias))
    state = guest.state("candidate", values=True)
    assert {name: entry.kind for name, entry in state.items()} == {
        "linear.weight": "parameter",
        "linear.bias": "parameter",
        "calls": "buffer",
    }
    assert torch.equal(state["calls"].value, torch.ones(1))
    assert torch.equal(state["linear.weight"].value, weight)
    assert guest.state("candidate")["linear.weight"].value is None


def test_speed_is_never_measured_in_the_interpreter(guest):
    guest.load(ADD)
    with pytest.raises(InfraError, match="CUDA only"):
        guest.prepare("candidate", GuestCall([torch.ones(4), torch.ones(4)], seed=1))
    with pytest.raises(InfraError, match="CUDA only"):
        guest.time()


def test_an_uncaught_failure_of_a_lost_thread_leaves_the_answer_alone(call):
    body = (
        "import threading\n"
        "def fused_operator(x):\n"
        "    thread = threading.Thread(target=lambda: 1 / 0)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    return [x + 1]\n"
    )
    assert torch.equal(call(body, torch.ones(2)).outputs[0], torch.full((2,), 2.0))


GRID = (
    HEADER
    + """
import weakref

@triton.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


class Sizes(tuple):
    def __iter__(self):
        look()
        return super().__iter__()


class Number(int):
    def __int__(self):
        look()
        return 64

    __index__ = __int__


def fused_operator(x):
    global look
    out = torch.empty_like(x)
    look = lambda: x.numpy()
    {launch}
    return [out]
"""
)
LAUNCHES = {
    "a function": "copy[lambda meta: (look() is None or 1,)](x, out, BLOCK=64)",
    "a tuple of its own": "copy[Sizes((1,))](x, out, BLOCK=64)",
    "a number of its own": "copy[(1,)](x, out, BLOCK=Number(64))",
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_what_a_launch_computes_on_the_host_is_watched(guest, launch):
    guest.load(GRID.replace("{launch}", launch))
    ran = guest.run("candidate", GuestCall([torch.randn(64)], seed=1))
    assert "leaves.numpy" in ran.operators


def test_what_happens_at_the_end_of_an_output_comes_after_the_copy(guest):
    late = "weakref.finalize(out, lambda y: y.fill_(3.0), out.detach())"
    guest.load(GRID.replace("{launch}", f"copy[(1,)](x, out, BLOCK=64); {late}"))
    x = torch.randn(64)
    assert torch.equal(guest.run("candidate", GuestCall([x], seed=1)).outputs[0], x)


OWN_OPERATOR = (
    HEADER
    + """
@torch.library.custom_op("guest_test::{name}", mutates_args=())
def own(x: torch.Tensor) -> torch.Tensor:
    return {result}


def fused_operator(x):
    return [own(x)]
"""
)


@pytest.mark.parametrize(
    ("name", "result", "inside"),
    [("copied", "x.clone()", "aten.clone.default"), ("added", "x + 1", "aten.add.Tensor")],
)
def test_of_an_operator_of_the_candidates_own_the_inside_counts(guest, name, result, inside):
    guest.load(OWN_OPERATOR.replace("{name}", name).replace("{result}", result))
    operators = guest.run("candidate", GuestCall([torch.randn(64)], seed=1)).operators
    assert inside in operators
    assert not any(operator.startswith("guest_test") for operator in operators)
