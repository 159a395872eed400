"""Guests on a real GPU: device memory in and out, faults that cost one guest, times."""

import secrets

import pytest
import torch

from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.probe import isolation_level
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault, Limits
from kernelwright.sandbox.shared.window import WINDOW_BYTES
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.floor import floor_ms
from kernelwright.timing.stats import summarize

ADD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, size, OFFSET: tl.constexpr, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    x = tl.load(x_ptr + at, mask=at < size)
    y = tl.load(y_ptr + at, mask=at < size)
    tl.store(out_ptr + at + OFFSET, x + y, mask=at < size)


def fused_operator(x, y):
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), OFFSET=0, BLOCK=1024)
    return [out]
"""


@pytest.fixture
def guest():
    with shared("cuda").guest(Limits(wall_s=60)) as made:
        yield made


def inputs(num: int = 1 << 20, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(num, device="cuda").to(dtype) for _ in range(2)]


def test_tensors_too_large_for_the_window_get_through_too(guest):
    guest.load(ADD)
    x, y = inputs(WINDOW_BYTES // 4)
    for given in ([x, y], [x[:100], y[:100]], [x, y]):
        ran = guest.run("candidate", GuestCall(given, seed=1))
        assert torch.equal(ran.outputs[0], given[0] + given[1])


@pytest.mark.parametrize("patient", [True, False])
def test_a_patient_guest_sleeps_while_it_waits_for_the_gpu(patient):
    with shared("cuda").guest(Limits(wall_s=60), patient=patient) as guest:
        assert guest.born.settings["waits for the GPU asleep"] == str(patient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_good_kernel_gives_the_right_bytes_through_device_memory(guest, dtype):
    guest.load(ADD)
    x, y = inputs(100_003, dtype)
    ran = guest.run("candidate", GuestCall([x, y], seed=1))
    assert torch.equal(ran.outputs[0], x + y)
    assert ran.outputs[0].is_cuda
    assert ran.launches == {"add": 1}
    assert not ran.changed_inputs
    assert "rlimits" in guest.isolation


def test_every_guard_the_kernel_grants_holds_beside_cuda():
    on_cpu, on_gpu = isolation_level("cpu"), isolation_level("cuda")
    without = set() if "procfs" in on_cpu.held else {"pidns"}  # the driver needs its own /proc
    assert set(on_gpu.held) == set(on_cpu.held) - without


def test_launchers_are_compiled_in_a_guest(guest):
    """Triton calls gcc and ptxas; nothing of this kernel is in any cache."""
    name = f"add_{secrets.token_hex(4)}"
    guest.load(ADD.replace("add", name))
    x, y = inputs(1_000)
    ran = guest.run("candidate", GuestCall([x, y], seed=1))
    assert torch.equal(ran.outputs[0], x + y)
    assert ran.launches == {name: 1}


def test_an_abort_on_the_gpu_is_seen_as_one_and_costs_one_guest(guest):
    guest.load("import os\ndef fused_operator(x):\n    os.abort()\n")
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall(inputs()[:1], seed=1))
    assert (caught.value.kind, caught.value.detail) == ("crashed", "SIGABRT")
    with shared("cuda").guest() as another:
        another.load(ADD)
        x, y = inputs()
        assert torch.equal(another.run("candidate", GuestCall([x, y], seed=1)).outputs[0], x + y)


def test_many_calls_do_not_pile_up_memory(guest):
    guest.load(ADD)
    given = inputs(1 << 22)
    used = []
    for seed in range(6):
        guest.run("candidate", GuestCall(given, seed=seed))
        used.append(torch.cuda.memory_allocated())
    assert used[-1] <= max(used[:2])


def test_strides_survive_in_both_directions(guest):
    guest.load("def fused_operator(x):\n    return [x.clone().t()]\n")
    x = torch.randn(32, 48, device="cuda").t()[::2]
    (output,) = guest.run("candidate", GuestCall([x], seed=1)).outputs
    assert torch.equal(output, x.t())


def test_an_unwritten_output_shows_the_poison(guest):
    guest.load(ADD)
    ran = guest.run("candidate", GuestCall(inputs(), seed=1, poison=7.5, skip_kernels=["add"]))
    assert torch.equal(ran.outputs[0], torch.full_like(ran.outputs[0], 7.5))


def test_an_illegal_access_costs_one_guest(guest):
    guest.load(ADD.replace("OFFSET=0", "OFFSET=1 << 44"))
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall(inputs(), seed=1))
    assert caught.value.kind == "out_of_bounds"
    assert not guest.alive
    with shared("cuda").guest() as another:
        another.load(ADD)
        x, y = inputs()
        assert torch.equal(another.run("candidate", GuestCall([x, y], seed=1)).outputs[0], x + y)


def test_running_out_of_device_memory_is_a_fault_of_the_candidate(guest):
    guest.load("def fused_operator(x):\n    return [x.new_empty(1 << 42)]\n")
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall(inputs()[:1], seed=1))
    assert caught.value.kind == "out_of_memory"
    assert guest.alive


def times_of(guest, name, given, num):
    """Times of cold calls on the same inputs, and the host's wall clock around each, in ms."""
    with gpu_lock():
        guest.prepare(name, GuestCall(given, seed=1))
        timed = [guest.time() for _ in range(num + 3)][3:]
    return [t.time_ms for t in timed], [t.wall_ms for t in timed]


def test_times_respect_physics_and_the_hosts_clock(guest):
    guest.load(ADD)
    x, y = inputs(1 << 26)
    times_ms, walls_ms = times_of(guest, "candidate", [x, y], 20)
    ran = guest.timed([x + y])
    assert torch.equal(ran.outputs[0], x + y)
    assert not ran.has_changed
    assert not ran.changed_inputs
    timing = summarize(times_ms)
    assert all(t <= w for t, w in zip(times_ms, walls_ms, strict=True))
    least_ms = floor_ms(torch.cuda.get_device_name(), 3 * 4 << 26, 1 << 26)
    if least_ms is not None:
        assert least_ms <= timing.median_ms <= 5 * least_ms


def test_an_idle_request_is_short(guest):
    guest.load(ADD)
    guest.prepare("candidate", GuestCall(inputs(), seed=1))
    idle = [guest.time(is_idle=True) for _ in range(20)][5:]
    assert summarize([t.time_ms for t in idle]).median_ms < 0.05
    assert summarize([t.wall_ms for t in idle]).median_ms < 5.0


def test_work_on_another_stream_is_timed_too(guest):
    hidden = (
        ADD
        + "\ndef fused_operator(x, y, visible=fused_operator, stream=torch.cuda.Stream()):\n"
        + "    stream.wait_stream(torch.cuda.current_stream())\n"
        + "    with torch.cuda.stream(stream):\n"
        + "        return [visible(x, y)[0] for _ in range(20)]\n"
    )
    guest.load(ADD, "open")
    guest.load(hidden, "hidden")
    given = inputs(1 << 26)
    one = summarize(times_of(guest, "open", given, 5)[0]).median_ms
    twenty = summarize(times_of(guest, "hidden", given, 5)[0]).median_ms
    assert twenty > 10 * one


def test_the_share_of_own_kernels_is_seen(guest):
    guest.load(ADD.replace("return [out]", "return [out, x.view(1024, -1) @ y.view(-1, 1024)]"))
    share = guest.kernel_time_share("candidate", inputs(1 << 22))
    assert 0.0 < share < 0.5
    guest.load(ADD, "own")
    assert guest.kernel_time_share("own", inputs(1 << 26)) > 0.9


def test_a_write_past_the_end_shows_where_the_allocator_has_slack(guest):
    guest.load(
        ADD.replace("at + OFFSET, x + y, mask=at < size", "at + OFFSET, x + y, mask=at < size + 4")
    )
    assert guest.run("candidate", GuestCall(inputs(100_003), seed=1)).overrun
    guest.load(ADD, "honest")
    assert not guest.run("honest", GuestCall(inputs(100_003), seed=1)).overrun


GRAPHED = (
    ADD
    + """

graph, given, made = None, None, None
plain = fused_operator


def fused_operator(x, y):
    global graph, given, made
    if graph is None:
        given = x.clone(), y.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            plain(*given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = plain(*given)
    given[0].copy_(x)
    given[1].copy_(y)
    graph.replay()
    return [made[0].clone()]
"""
)


def test_a_replayed_graph_launches_what_it_captured_and_can_be_silenced(guest):
    guest.load(GRAPHED)
    for seed in range(3):
        x, y = inputs(100_003)
        ran = guest.run("candidate", GuestCall([x, y], seed=seed))
        assert torch.equal(ran.outputs[0], x + y)
        assert ran.launches["add"] >= 1
    x, y = inputs(100_003)
    ran = guest.run("candidate", GuestCall([x, y], seed=9, skip_kernels=["add"]))
    assert ran.suppressed == {"add": 1}
    assert not torch.equal(ran.outputs[0], x + y)
