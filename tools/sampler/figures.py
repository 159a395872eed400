"""The figures of `synth` as records: uniformity, what many programs hold, whether they run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from random import Random
from time import process_time

import torch

from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.programs.program import Program
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal_by_ranges
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.sample import Sampler
from kernelwright.synth.space import space_record
from tools.sampler.executed import Executed, execute
from tools.sampler.expected import ExpectedPairs
from tools.sampler.spread import SpreadCounts, found_of, missing_pairs
from tools.sampler.uniformity import SPACES, draws, goodness_of_fit, probabilities

_IN_PART = 100
_MOST_MISSING = 1000
_TRIES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class FiguresPlan:
    """The programs to draw for figures."""

    recipe: DrawRecipe
    level: int
    num: int
    seed: int = 0
    device: str | None = None
    """Run every program there; None: only look at what it holds."""


@dataclass(slots=True)
class _FiguresPart:
    """The counts that a worker took over some of a plan's programs."""

    spread: SpreadCounts
    expected: ExpectedPairs
    executed: Executed
    refused: Counter[str]
    crowded: list[int] = field(default_factory=list)
    """Programs that found no memory beside those of other processes."""
    not_uniform: int = 0
    draw_s: float = 0.0
    """CPU time of drawing alone."""

    def merge(self, other: "_FiguresPart") -> None:
        self.spread.merge(other.spread)
        self.expected.merge(other.expected)
        self.executed.merge(other.executed)
        self.refused.update(other.refused)
        self.crowded += other.crowded
        self.not_uniform += other.not_uniform
        self.draw_s += other.draw_s


def uniformity(
    draws_each: int, seed: int, spaces: Mapping[str, tuple[int, DrawRecipe]] = SPACES
) -> Iterator[Record]:
    """A chi-square test over all programs of each small space; `draws_each` for each program."""
    for name, (level, recipe) in spaces.items():
        expected = probabilities(recipe, level)
        fit = goodness_of_fit(expected, draws(recipe, level, draws_each * len(expected), seed))
        yield {"record": "uniformity", "space": name, "level": level, "seed": seed, **fit.to_json()}


def programs(plan: FiguresPlan, workers: int, say: Say) -> Record:
    """Draw a plan's programs, each attempt 0 of its stream, and say what they are."""
    space = space_record(plan.recipe)
    whole = _empty(space)
    starts = range(0, plan.num, _IN_PART)
    jobs = [(plan, start, min(_IN_PART, plan.num - start)) for start in starts]
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        for done, part in enumerate(pool.map(_part, jobs), 1):
            whole.merge(part)
            say(f"level {plan.level}: {min(done * _IN_PART, plan.num)} of {plan.num}")
    if whole.crowded:
        with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
            whole.executed.merge(pool.submit(_alone, plan, whole.crowded).result())
    record = {
        "record": "programs",
        "digest": plan.recipe.digest(),
        "level": plan.level,
        "seed": plan.seed,
        "draws": plan.num,
        "refused": dict(whole.refused),
        "not_uniform": whole.not_uniform,
        "draw_cpu_ms": 1e3 * whole.draw_s / max(plan.num, 1),
        "spread": found_of(whole.spread, space),
    }
    if _expects_pairs(plan.recipe):
        record["missing_pairs"] = list(_missing(whole, plan, space))
    if plan.device is not None:
        record["executed"] = {"device": plan.device, **whole.executed.to_json()}
    return record


def _expects_pairs(recipe: DrawRecipe) -> bool:
    """Not where skeletons are to be sound: their operators are not independent."""
    return not recipe.quality.ranges


def _missing(whole: _FiguresPart, plan: FiguresPlan, space: Record) -> Iterator[Record]:
    """The pairs that no program had, where they are few enough to look at: readings to be expected
    going by skeletons, and whether any program of the two operators alone has the pair."""
    missing = missing_pairs(whole.spread, space)
    for pair in missing if len(missing) <= _MOST_MISSING else ():
        yield {
            "pair": pair,
            "expected": whole.expected.readings(pair, plan.num),
            "alone": has_pair_alone(plan.recipe, pair),
        }


def has_pair_alone(recipe: DrawRecipe, pair: tuple[str, str]) -> bool:
    """Whether a program of two calls has the (producer, consumer): of `_TRIES`, drawn of these two
    operators alone."""
    sampler = Sampler(replace(recipe, operators=tuple(dict.fromkeys(pair)), weights={}))
    if not sampler.skeletons.count(2):
        return False
    spread = SpreadCounts()
    attributes: Record = dict.fromkeys(pair, ())
    for index in range(_TRIES):
        if (program := sampler.draw(2, 0, index, 0).program) is not None:
            spread.add(program, attributes)
    return spread.pairs[pair] > 0


_TOOLS: dict[str, tuple[Sampler, Record]] = {}
"""The tools of this process, by recipe."""


def _tools(recipe: DrawRecipe) -> tuple[Sampler, Record]:
    digest = recipe.digest()
    if digest not in _TOOLS:
        _TOOLS[digest] = Sampler(recipe), space_record(recipe)
    return _TOOLS[digest]


def _part(job: tuple[FiguresPlan, int, int]) -> _FiguresPart:
    plan, start, num = job
    sampler, space = _tools(plan.recipe)
    sampler.skeletons.count(plan.level)  # not to be counted as time of the first draw
    part = _empty(space)
    if _expects_pairs(plan.recipe):
        rng = Random(derive(plan.seed, "pairs", plan.level, start))
        for _ in range(num):
            part.expected.add(sampler.skeletons.sample(plan.level, rng), sampler.skeletons)
    for index, program in _drawn(sampler, plan, range(start, start + num), part):
        part.spread.add(program, space["attributes"])
        if plan.device is not None:
            try:
                _run(with_inits(program), plan.device, part)
            except torch.OutOfMemoryError:
                part.crowded.append(index)
    return part


def _alone(plan: FiguresPlan, indices: Sequence[int]) -> Executed:
    """Programs of a plan run with nothing else on the device."""
    assert plan.device is not None
    sampler, space = _tools(plan.recipe)
    part = _empty(space)
    for _, program in _drawn(sampler, plan, indices, part):
        try:
            _run(with_inits(program), plan.device, part)
        except torch.OutOfMemoryError:
            part.executed.too_large += 1
    return part.executed


def _empty(space: Record) -> _FiguresPart:
    return _FiguresPart(
        SpreadCounts(), ExpectedPairs(list(space["operators"])), Executed(), Counter()
    )


def _run(program: Program, device: str, part: _FiguresPart) -> None:
    """Only where operators are given what they are defined for: PyTorch refuses the rest."""
    if refusal := refusal_by_ranges(program):
        part.refused[refusal.reason.value] += 1
    else:
        execute(program, device, part.executed)


def _drawn(
    sampler: Sampler, plan: FiguresPlan, indices: Iterable[int], part: _FiguresPart
) -> Iterator[tuple[int, Program]]:
    for index in indices:
        begin_s = process_time()
        sample = sampler.draw(plan.level, plan.seed, index, 0)
        part.draw_s += process_time() - begin_s
        part.not_uniform += not sample.is_uniform
        if sample.program is not None:
            yield index, sample.program
        else:
            part.refused[str(sample.refused)] += 1
