"""What times are believed."""

import random

import pytest
import torch

from kernelwright.core.verdict import Code, Precision
from kernelwright.programs.text import parse
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.times.plausible import (
    check_floor,
    check_wall,
    leaves_inputs_unread,
    plain_product,
    product_ms,
)
from kernelwright.verify.times.sides import Believed, Burst

ROUND_TRIP_MS = 0.2


def believed(times_ms, beyond_ms=0.0, jitter_ms=0.02, num=20):
    """Requests that take 0.2 ms by themselves, and calls that hide `beyond_ms`."""
    rng = random.Random(3)
    found = Believed()
    for _ in range(num):
        found.times_ms.append(times_ms)
        found.walls_ms.append(times_ms + beyond_ms + ROUND_TRIP_MS + rng.uniform(0, jitter_ms))
        found.idles_ms.append(ROUND_TRIP_MS + rng.uniform(0, jitter_ms))
    return found


@pytest.mark.parametrize("times_ms", [0.005, 0.5, 50.0])
def test_honest_times_are_believed(times_ms):
    check_wall(believed(times_ms), num_outputs=1)


def with_bursts(found, time_ms, beyond_ms):
    """Bursts of 20 calls that claim `time_ms` each and hide `beyond_ms` each."""
    found.bursts = [Burst(20, 20 * time_ms, 20 * beyond_ms) for _ in range(3)]
    return found


def test_small_lies_add_up_in_bursts():
    check_wall(with_bursts(believed(0.05, 0.04), 0.05, 0.04), num_outputs=1)
    with pytest.raises(Rejected, match="on the host's clock"):
        check_wall(with_bursts(believed(0.05, 0.4), 0.05, 0.4), num_outputs=1)
    check_wall(believed(0.05, 0.4), num_outputs=1)  # which one call alone does not show


def test_a_guest_that_is_truthful_in_bursts_only_contradicts_itself():
    with pytest.raises(Rejected, match="in a row"):
        check_wall(with_bursts(believed(0.05, 0.4), 0.45, 0.0), num_outputs=1)


@pytest.mark.parametrize(("times_ms", "hidden_ms"), [(0.005, 1.0), (1.0, 1.5), (20.0, 6.0)])
def test_time_that_only_the_host_sees_is_refused(times_ms, hidden_ms):
    with pytest.raises(Rejected) as caught:
        check_wall(believed(times_ms, hidden_ms), num_outputs=1)
    assert caught.value.code is Code.IMPLAUSIBLE_TIME


def test_single_hiccups_do_not_count():
    found = believed(0.1)
    found.walls_ms[3] += 500.0
    found.walls_ms[7] += 40.0
    check_wall(found, num_outputs=1)


def test_on_a_busy_machine_uneven_requests_are_no_proof():
    check_wall(believed(0.1, beyond_ms=2.0, jitter_ms=8.0), num_outputs=1)


def test_an_answer_before_the_time_it_claims_is_refused():
    with pytest.raises(Rejected, match="sooner"):
        check_wall(believed(5.0, beyond_ms=-4.0), num_outputs=1)


class H200(Rules):
    device_name = "NVIDIA H200"


def rules(precision=Precision.STRICT):
    return H200(torch.device("cpu"), precision, "pure")


def product(size, dtype="torch.float32"):
    return program_task(
        parse(
            "import torch\n\n\ndef get_inputs():\n"
            f"    x0 = torch.randn({size}, {size}, dtype={dtype})\n"
            f"    x1 = torch.randn({size}, {size}, dtype={dtype})\n"
            "    return [x0, x1]\n\n\ndef fused_operator(x0, x1):\n"
            "    t0 = torch.mm(x0, x1)\n    return [t0]\n"
        )
    )


def relu(rows):
    return program_task(
        parse(
            "import torch\n\n\ndef get_inputs():\n"
            f"    x0 = torch.randn({rows}, 1024)\n    return [x0]\n\n\n"
            "def fused_operator(x0):\n    t0 = torch.relu(x0)\n    return [t0]\n"
        )
    )


def output(num_bytes):
    return torch.empty(num_bytes, dtype=torch.uint8, device="meta")


def test_no_call_writes_faster_than_the_memory():
    gigabytes = 48 << 30  # some 10.7 ms, less what stays in L2
    with pytest.raises(Rejected, match="physics"):
        check_floor([9.0, 20.0], [output(gigabytes)], relu(8), rules())
    check_floor([10.0, 20.0], [output(gigabytes)], relu(8), rules())


def test_what_fits_into_the_cache_has_no_floor():
    check_floor([0.001], [output(32 << 20)], relu(8), rules())


def test_a_product_needs_its_arithmetic():
    task, outputs = product(8192), [output(4 * 8192 * 8192)]
    flops = 2 * 8192**3
    assert product_ms(task.program, rules()) == pytest.approx(3e3 * flops / 989e12)
    assert product_ms(task.program, rules(Precision.TF32)) == pytest.approx(1e3 * flops / 989e12)
    with pytest.raises(Rejected, match="physics"):
        check_floor([1.2], outputs, task, rules())
    check_floor([1.8], outputs, task, rules())  # half of what three products take
    check_floor([0.7], outputs, task, rules(Precision.TF32))


def test_several_operators_have_no_arithmetic_floor():
    text = (
        "import torch\n\n\ndef get_inputs():\n    x0 = torch.randn(64, 64)\n"
        "    x1 = torch.randn(64, 64)\n    return [x0, x1]\n\n\n"
        "def fused_operator(x0, x1):\n    t0 = torch.mm(x0, x1)\n"
        "    t1 = torch.relu(t0)\n    return [t1]\n"
    )
    assert plain_product(program_task(parse(text))) is None
    assert plain_product(product(64)) is not None
    assert plain_product(relu(64)) is None


def test_inputs_that_cannot_have_been_read_are_noted_not_refused():
    task = relu(1 << 20)  # 4 GiB in, some 0.9 ms
    check_floor([0.5], [output(4)], task, rules())
    assert leaves_inputs_unread([0.5], [output(4)], task, rules())
    assert not leaves_inputs_unread([1.0], [output(4)], task, rules())


def test_an_unknown_gpu_has_no_floor():
    check_floor([1e-6], [output(48 << 30)], relu(8), Rules(torch.device("cpu"), "strict", "pure"))
