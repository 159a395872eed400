"""Answers to judge: of the teacher and of the shipped model, to small programs and modules."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from kernelwright.bench.problems import OPERATORS, Problem, ProblemSelection, problems_of
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.policy.local import LocalModel
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request
from kernelwright.programs.fragments.fragment import part_of
from kernelwright.programs.fragments.partition import propose
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import scaled_down
from kernelwright.programs.text import to_text
from kernelwright.search.target import Target, load_target
from kernelwright.teacher.whole import write_whole
from kernelwright.teacher.writer import family, write
from kernelwright.verify.tasks.task import CPU

TEACHER_PROGRAMS = {"L1": 30, "L2": 30, "L5": 30, "L20": 4}
"""Programs of each level that the teacher answers."""
EMBEDDED_PROGRAMS = {"L1": 40, "L2": 40, "L5": 45, OPERATORS: 40}
"""Programs of each level that the model answers: the next larger ones."""
SCHEDULES = 3
"""Candidates of the teacher for a program or a fragment."""
FRAGMENTS, WHOLES = 6, 2
"""Fragments of a module, and candidates for the whole of it."""
MAX_ELEMENTS, MAX_FLOPS = 1 << 11, 1 << 18
"""A program is scaled down to these: the interpreter gets through it quickly."""
MAX_FRAGMENT_BYTES = 1 << 20
"""Larger fragments take the interpreter too long."""
MAX_TOKENS = 4096
"""The most tokens of one answer of the model."""


def collected(modules: Iterable[Path], seed: int) -> Iterator[Record]:
    """Jobs of `verify-many`, each with its writer, level and mode.

    Args:
        modules: files in KernelBench's format; the teacher answers fragments and the whole.
        seed: of the teacher's draws.
    """
    smallest = _by_level()
    taken = {level: TEACHER_PROGRAMS.get(level, 0) for level in smallest}
    for level, number in taken.items():
        for problem in smallest[level][:number]:
            yield from _by_teacher(problem.name, problem.text, problem.program, level, seed)
    for path in modules:
        yield from _of_module(path, seed)
    asked = [
        problem
        for level, number in EMBEDDED_PROGRAMS.items()
        for problem in smallest[level][taken[level] : taken[level] + number]
    ]
    yield from _by_embedded(asked)


def _by_level() -> dict[str, list[Problem]]:
    """The programs of synthetic-v1 by level, scaled down, the smallest first."""
    levels: dict[str, list[Problem]] = {}
    for problem in problems_of([], ProblemSelection()):
        small = scaled_down(problem.program, MAX_ELEMENTS, max_flops=MAX_FLOPS)
        problem = replace(problem, program=small, text=to_text(small))
        levels.setdefault(problem.level, []).append(problem)
    return {level: sorted(programs, key=_work) for level, programs in levels.items()}


def _work(problem: Problem) -> int:
    """About what the interpreter has to do."""
    return problem.program.bytes_unfused() + problem.program.flops()


def _by_teacher(
    name: str, text: str, program: Program, level: str, seed: int, *, limit: int = SCHEDULES
) -> Iterator[Record]:
    """One kernel where the teacher has one, then the program cut by chance."""
    fused = write(program, limit=limit, seed=seed) if len(program.calls) <= 20 else []
    cut = write_whole(program, limit=limit, seed=seed) if len(program.calls) > 1 else []
    sources = dict.fromkeys(answer.source for pair in (fused, cut) for answer in pair)
    for number, source in enumerate(islice(sources, limit + 1)):
        yield _job(f"teacher/{name}/{number}", text, source, "teacher", level)


def _of_module(path: Path, seed: int) -> Iterator[Record]:
    try:
        target = load_target(str(path), CPU)
    except UsageError:
        return  # it cannot be lowered: no answer of ours
    yield from _fragments(target, path.stem, seed)
    for number, whole in enumerate(write_whole(target.program, limit=WHOLES, seed=seed)):
        source = target.write(whole.source)
        text = path.read_text(encoding="utf-8")
        yield _job(f"teacher/{path.stem}/whole/{number}", text, source, "teacher", "module")


def _fragments(target: Target, stem: str, seed: int) -> Iterator[Record]:
    parts = propose(target.program, family, every=True)
    programs = [scaled_down(part_of(target.program, part), MAX_ELEMENTS) for part in parts]
    small = [program for program in programs if program.bytes_unfused() <= MAX_FRAGMENT_BYTES]
    distinct = {to_text(program): program for program in small}
    for number, (text, program) in enumerate(islice(distinct.items(), FRAGMENTS)):
        name = f"{stem}/fragment-{number}"
        yield from _by_teacher(name, text, program, "fragment", seed, limit=2)


def _by_embedded(problems: list[Problem]) -> Iterator[Record]:
    """The likeliest answers of the shipped model."""
    requests = [Request(program=problem.program) for problem in problems]
    sampling = Sampling(max_tokens=MAX_TOKENS)
    answers = LocalModel.embedded().write(requests, samples=1, sampling=sampling)
    for problem, (answer,) in zip(problems, answers, strict=True):
        if answer.candidate is not None:
            name, source = f"embedded/{problem.name}", answer.candidate.source
            yield _job(name, problem.text, source, "embedded", problem.level)


def _job(name: str, reference: str, candidate: str, writer: str, level: str) -> Record:
    mode = "hybrid" if derive(0, "mode", name) % 4 == 0 else "pure"
    about = {"id": name, "writer": writer, "level": level, "mode": mode}
    return {**about, "reference": reference, "candidate": candidate}
