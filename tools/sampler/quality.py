"""How many drawn programs are tasks, why the others are not, and what it costs to know."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from time import process_time
from typing import Any, TypeVar

import torch

from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.synth.benchmarks import is_vocabulary
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal
from kernelwright.synth.recipe import DrawRecipe, Quality
from kernelwright.synth.sample import Sampler

T = TypeVar("T")
_IN_PART = 20
"""Attempts a job."""
CHECKS = {
    "unrun": Quality(lint=False),
    "run": Quality(ranges=False, avoid_benchmarks=False),
}
"""Checks that look at a program, and those that run it."""


@dataclass(slots=True)
class _QualityPart:
    refused: Counter[str] = field(default_factory=Counter)
    """By reason; those of the linter with the kind of finding."""
    checked: Counter[str] = field(default_factory=Counter)
    """Attempts that came to "draw", to "inits" and to each of `CHECKS`."""
    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Processor seconds of all checks of a name."""
    passed: int = 0
    vocabulary: int = 0
    """Programs that are a benchmark's task of one call, and are kept."""

    def merge(self, other: "_QualityPart") -> None:
        self.refused.update(other.refused)
        self.checked.update(other.checked)
        for name, seconds in other.cpu_s.items():
            self.cpu_s[name] += seconds
        self.passed += other.passed
        self.vocabulary += other.vocabulary


def quality(recipe: DrawRecipe, level: int, num: int, seed: int, workers: int, say: Say) -> Record:
    """The quality of `num` attempts of the sampler, each the first of its stream."""
    whole = _QualityPart()
    starts = range(0, num, _IN_PART)
    text = json.dumps(recipe.to_json())
    jobs = [(text, level, seed, start, min(_IN_PART, num - start)) for start in starts]
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        for done, part in enumerate(pool.map(_part, jobs), 1):
            whole.merge(part)
            say(f"level {level}: {min(done * _IN_PART, num)} of {num}")
    return {
        "record": "quality",
        "digest": recipe.digest(),
        "level": level,
        "seed": seed,
        "attempts": num,
        "passed": whole.passed,
        "vocabulary": whole.vocabulary,
        "refused": dict(whole.refused.most_common()),
        "cpu_ms": {name: 1e3 * whole.cpu_s[name] / whole.checked[name] for name in whole.checked},
    }


Job = tuple[str, int, int, int, int]
"""Recipe as JSON, level, seed, first index, number of indices."""


@cache
def _sampler(recipe: str) -> Sampler:
    return Sampler(DrawRecipe.of(json.loads(recipe)))


def _timed(part: _QualityPart, name: str, work: Callable[..., T], *args: Any) -> T:
    begin_s = process_time()
    result = work(*args)
    part.cpu_s[name] += process_time() - begin_s
    part.checked[name] += 1
    return result


def _part(job: Job) -> _QualityPart:
    text, level, seed, start, num = job
    torch.set_num_threads(1)
    _sampler(text).skeletons.count(level)  # once a process, and no part of a draw
    part = _QualityPart()
    for index in range(start, start + num):
        sample = _timed(part, "draw", _sampler(text).draw, level, seed, index, 0)
        if sample.program is None:
            part.refused[str(sample.refused)] += 1
            continue
        program = _timed(part, "inits", with_inits, sample.program)
        for name, rules in CHECKS.items():
            if refused := _timed(part, name, refusal, program, rules):
                part.refused[": ".join(filter(None, (refused.reason.value, refused.finding)))] += 1
                break
        else:
            part.passed += 1
            part.vocabulary += is_vocabulary(program)
    return part
