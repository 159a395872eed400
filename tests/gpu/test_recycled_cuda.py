"""The grade `recycled` on a GPU: one context for many candidates, kernels that come compiled."""

import time

import pytest
import torch

from corpus import ROOT, entries
from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse
from kernelwright.sandbox.host import launchers
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault, Limits
from kernelwright.verify import recycled
from kernelwright.verify.controls import draw
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.recycled import MAX_CANDIDATES, TOGETHER
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task

PLAIN = (ROOT / "honest" / "plain.py").read_text()
GOOD = Candidate(source=PLAIN)
RELU = program_task(
    parse((ROOT / "tasks" / "relu.py").read_text().replace("(37, 100)", "(512, 768)"))
)
IN_A_GUEST_OF_ITS_OWN = """
import torch
import triton
import triton.language as tl

kept = []


@triton.jit
def busy(x, n, BLOCK: tl.constexpr):
    for _ in range(n):
        tl.store(x + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) + 1)


def fused_operator(x):
    side = torch.cuda.Stream()
    kept.append(side)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        busy[(1,)](x, 2000000, BLOCK=32)
    {after}
    return [torch.empty_like(x)]
"""


@pytest.fixture
def judge():
    with Judge(
        JudgeOptions(device="cuda", mode="pure", grade="recycled"), limits=Limits(wall_s=60.0)
    ) as judge:
        yield judge


def different(number):
    """The good candidate with a kernel that no cache knows."""
    return Candidate(
        source=PLAIN.replace(
            "BLOCK: tl.constexpr", f"BLOCK: tl.constexpr, N: tl.constexpr = {number}"
        )
    )


def test_candidates_in_a_row_are_accepted_in_one_guest(judge):
    verdicts = list(judge.verify_many([(RELU, different(i)) for i in range(20)]))
    assert [v.message for v in verdicts if not v.accepted] == []
    assert judge.recycled.guests.num_started == 1


def test_kernels_and_launchers_come_compiled():
    source = different(time.time_ns()).source
    example = [torch.empty(512, 768, device="meta")]
    with shared("compile").guest(Limits()) as compiler, shared("cuda").guest(Limits()) as guest:
        compiler.load(source)
        for signature in compiler.compile(example, measures=False).signatures:
            launchers.make(launchers.plain_signature(signature))
        kernels = compiler.take_kernels("candidate")
        guest.load(source, kernels=kernels)
        ran = guest.run("candidate", GuestCall([torch.randn(512, 768, device="cuda")], seed=1))
        assert ran.launches == {"relu_kernel": 1}
        guest.forget("candidate")
        own = [path for path in guest._folder.rglob("*") if path.suffix in (".cubin", ".so")]
        assert own == []


def test_a_candidate_that_leaves_something_is_found_and_the_next_is_not_hurt(judge, monkeypatch):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])

    def leaving(what):
        call = PLAIN.replace("    return [relu(x0)]", f"    {what}\n    return [relu(x0)]")
        return Candidate(source=f"import sys, threading, time\n{call}")

    left = {
        "torch.backends.cuda.matmul.allow_tf32 = True": {Code.SETTINGS_CHANGED},
        "torch.cuda.set_stream(torch.cuda.Stream())": {Code.SETTINGS_CHANGED},
        "threading.Thread(target=time.sleep, args=(60,)).start()": {Code.LEFT_RUNNING},
        # A copy that is not waited for may hold old values: the comparison can come first.
        "torch.cuda.synchronize = print": {Code.TAMPERED, Code.WRONG_VALUES},
    }
    for number, (what, codes) in enumerate(left.items()):
        verdict = judge.verify(RELU, leaving(what))
        assert verdict.code in codes, f"{what}: {verdict.code} {verdict.message}"
        assert judge.verify(RELU, GOOD).accepted
        assert judge.recycled.guests.num_started == number + 2


@pytest.mark.parametrize(
    ("after", "count"), [("torch.cuda.current_stream().wait_stream(side)", 0), ("pass", 1)]
)
def test_work_on_a_stream_nobody_waits_for_is_counted(after, count):
    with shared("cuda").guest(Limits()) as guest:
        guest.load(IN_A_GUEST_OF_ITS_OWN.format(after=after))
        x = torch.zeros(32, dtype=torch.int32, device="cuda")
        guest.run("candidate", GuestCall([x], seed=1))  # the first call compiles
        assert (
            guest.run("candidate", GuestCall([x], seed=1)).process.running["streams with work"]
            == count
        )


def test_an_illegal_address_costs_one_guest(judge):
    outside = PLAIN.replace("tl.load(x + i, i < n)", "tl.load(x + i + (1 << 40), i < n)")
    assert outside != PLAIN
    verdicts = list(judge.verify_many([(RELU, c) for c in (GOOD, Candidate(source=outside), GOOD)]))
    assert [v.accepted for v in verdicts] == [True, False, True]
    assert judge.recycled.guests.num_started == 2


@pytest.mark.parametrize("mode", ["pure", "hybrid"])
def test_the_honest_corpus_passes_twice_without_a_new_guest(mode):
    # A third of the kernels: test_corpus_cuda.py judges all of them, in guests of their own.
    chosen = [entry for entry in entries("honest") if entry.mode == mode][::3] * 2
    with Judge(JudgeOptions(device="cuda", mode=mode, grade="recycled")) as judge:
        pairs = [(load_task(e.task, judge.rules.device), e) for e in chosen]
        found = judge.verify_many(
            (task, Candidate(source=entry.path.read_text())) for task, entry in pairs
        )
        refused = {
            entry.path.stem: f"{verdict.code}: {verdict.message}"
            for (_, entry), verdict in zip(pairs, found, strict=True)
            if not verdict.accepted
        }
        assert refused == {}
        num_controls = len(pairs) // TOGETHER + 1
        most = 1 + (len(pairs) + num_controls) // MAX_CANDIDATES
        assert judge.recycled.guests.num_started <= most


@pytest.mark.parametrize(
    "what",
    [
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0.2)",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))",
        "import os; os.setpriority(os.PRIO_PROCESS, 0, 19)",
        "import os; os.chmod(os.environ['HOME'], 0o777)",
    ],
)
def test_what_would_outlast_a_candidate_is_refused_in_a_guest_on_a_gpu(what):
    source = f"def fused_operator(x):\n    {what}\n    return [x + 1]\n"
    with shared("cuda").guest(Limits()) as guest:
        guest.load(source)
        with pytest.raises(GuestFault) as caught:
            guest.run("candidate", GuestCall([torch.zeros(4, device="cuda")], seed=1))
    assert caught.value.kind == "runtime", caught.value


def test_a_control_finds_a_guest_that_loads_no_kernel_any_more(judge, monkeypatch):
    """The attestation does not see an attribute of an instance."""
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])
    monkeypatch.setattr(recycled, "draw", lambda: next(c for c in iter(draw, None) if c.is_right))
    spoil = "from triton.runtime import driver; driver.active.utils.load_binary = None"
    called = f"    y = relu(x0)\n    if not x0.is_meta:\n        {spoil}\n    return [y]"
    spoiler = Candidate(source=PLAIN.replace("    return [relu(x0)]", called))
    row = (spoiler, different(1), different(2))
    codes = [v.code for v in judge.verify_many([(RELU, candidate) for candidate in row])]
    assert codes[1:] == [Code.OK, Code.OK]
