"""The figures of `synth` as records: uniformity, what many programs hold, whether they run."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from time import process_time

from kernelwright.bench.executed import Executed, execute
from kernelwright.bench.expected import ExpectedPairs
from kernelwright.bench.spread import Spread, found_of, missing_pairs
from kernelwright.bench.uniformity import SPACES, draws, goodness_of_fit, probabilities
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.programs.program import Program
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal_by_ranges
from kernelwright.synth.recipe import Recipe
from kernelwright.synth.sample import Sampler
from kernelwright.synth.space import space_record

Say = Callable[[str], None]
_IN_PART = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is drawn for figures."""

    recipe: Recipe
    level: int
    num: int
    seed: int = 0
    device: str | None = None
    """Run every program there; None: only look at what it holds."""


@dataclass(slots=True)
class _Part:
    """What a worker found in some of a plan's programs."""

    spread: Spread
    expected: ExpectedPairs
    executed: Executed
    refused: Counter[str]
    not_uniform: int = 0
    draw_s: float = 0.0
    """CPU time of drawing alone."""

    def merge(self, other: "_Part") -> None:
        self.spread.merge(other.spread)
        self.expected.merge(other.expected)
        self.executed.merge(other.executed)
        self.refused.update(other.refused)
        self.not_uniform += other.not_uniform
        self.draw_s += other.draw_s


def uniformity(
    draws_each: int, seed: int, spaces: Mapping[str, tuple[int, Recipe]] = SPACES
) -> Iterator[Record]:
    """A chi-square test over all programs of each small space; `draws_each` for each program."""
    for name, (level, recipe) in spaces.items():
        expected = probabilities(recipe, level)
        fit = goodness_of_fit(expected, draws(recipe, level, draws_each * len(expected), seed))
        yield {"record": "uniformity", "space": name, "level": level, "seed": seed, **fit.to_json()}


def programs(plan: Plan, workers: int, say: Say) -> Record:
    """Draw a plan's programs, each attempt 0 of its stream, and say what they are."""
    space = space_record(plan.recipe)
    whole = _empty(space)
    starts = range(0, plan.num, _IN_PART)
    jobs = [(plan, start, min(_IN_PART, plan.num - start)) for start in starts]
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        for done, part in enumerate(pool.map(_part, jobs), 1):
            whole.merge(part)
            say(f"level {plan.level}: {min(done * _IN_PART, plan.num)} of {plan.num}")
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
    missing = missing_pairs(whole.spread, space)
    if missing and not plan.recipe.quality.ranges:  # which operators are sound is not independent
        expected, pair = whole.expected.largest(missing, plan.num)
        record["missing_pair_most_expected"] = {"pair": pair, "readings": expected}
    if plan.device is not None:
        record["executed"] = {"device": plan.device, **whole.executed.to_json()}
    return record


_TOOLS: dict[str, tuple[Sampler, Record]] = {}
"""Of this process, by recipe."""


def _part(job: tuple[Plan, int, int]) -> _Part:
    plan, start, num = job
    digest = plan.recipe.digest()
    if digest not in _TOOLS:
        _TOOLS[digest] = Sampler(plan.recipe), space_record(plan.recipe)
    sampler, space = _TOOLS[digest]
    sampler.skeletons.count(plan.level)  # not to be counted as time of the first draw
    part = _empty(space)
    rng = Random(derive(plan.seed, "pairs", plan.level, start))
    for _ in range(num):
        part.expected.add(sampler.skeletons.sample(plan.level, rng), sampler.skeletons)
    for program in _drawn(sampler, plan, range(start, start + num), part):
        part.spread.add(program, space["attributes"])
        if plan.device is not None:
            _run(with_inits(program), plan.device, part)
    return part


def _empty(space: Record) -> _Part:
    return _Part(Spread(), ExpectedPairs(list(space["operators"])), Executed(), Counter())


def _run(program: Program, device: str, part: _Part) -> None:
    """Only where operators are given what they are defined for: PyTorch refuses the rest."""
    if found := refusal_by_ranges(program):
        part.refused[found.reason.value] += 1
    else:
        execute(program, device, part.executed)


def _drawn(sampler: Sampler, plan: Plan, indices: Iterable[int], part: _Part) -> Iterator[Program]:
    for index in indices:
        begin_s = process_time()
        sample = sampler.draw(plan.level, plan.seed, index, 0)
        part.draw_s += process_time() - begin_s
        part.not_uniform += not sample.is_uniform
        if sample.program is not None:
            yield sample.program
        else:
            part.refused[str(sample.refused)] += 1
