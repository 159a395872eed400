"""Entries for tests of the library."""

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.verdict import Code, Stage, Timing, Verdict
from kernelwright.library.entry import Key, LibraryEntry

PLAN = KernelPlan(kernel="k", fuses=("relu",), loop="pointwise", tiles={"BLOCK": 128})
TIMES = {"candidate": Timing(median_ms=1.0, low_ms=0.9, high_ms=1.1, num_samples=9)}


def key(program="relu", **changes):
    values = {
        "program": program, "device": "H", "versions": "1", "precision": "strict",
        "mode": "hybrid", "writers": "teacher",
    }  # fmt: skip
    return Key(**(values | changes))


def entry(program="relu", source="# a kernel\n", **changes):
    verdict = Verdict(
        accepted=True, stage=Stage.ACCEPTED, code=Code.OK, message="right", mode="hybrid",
        precision="strict", device="H", times=TIMES, speedup_interval=(1.0, 2.0),
    )  # fmt: skip
    values = {
        "key": key(program), "candidate": Candidate(source=source, plan=(PLAN,)),
        "wins": True, "verdict": verdict, "family": "pointwise", "reason": "2.00x",
        "saving": 0.5, "limit": 4, "created_s": 1.0,
    }  # fmt: skip
    return LibraryEntry(**(values | changes))


def stays(program="relu", **changes):
    return entry(program, **({"wins": False, "saving": 0.0} | changes))
