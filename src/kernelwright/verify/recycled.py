"""The grade `recycled`: many candidates, one after the other, in guests that live on.

For training and wide search, where a new process with a new GPU context for every candidate is too
slow. Candidates of one task share its cases, inputs and answers, which are drawn anew every
`REFRESH` candidates. A second guest, without a GPU, compiles the next candidates meanwhile.

After each candidate the guest is attested: settings, what is left running, and the identity of
objects, against its birth. It is retired on any difference, after a crash or a lost context, and
after `MAX_CANDIDATES`. An exception of a candidate's alone, in a guest that is as it was,
does not end it: models that learn raise them all the time.

What this rests on: inputs, expected values and decisions are the host's in this grade too, so a
guest that one candidate has spoiled can make a later one fail, and cannot know what is right. What
it could do, unseen, is compute a later candidate's outputs for it: therefore attestation, guests
that are replaced, and `verify.many_audit`, which judges the best and a share of the others again,
`fresh`.

Which cases: every kind of probe that correctness needs, at the task's shapes and at one other. That
one keeps each size's power of two and its divisibility by 16 where it can, so that the very kernels
that were compiled for the task serve it. Other odd sizes, strided inputs and times of CUDA graphs
are for `fresh`.
"""

import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.core.verdict import ErrorFigures, Verdict
from kernelwright.programs.families import FAMILIES
from kernelwright.sandbox import removal
from kernelwright.sandbox.forkserver import shared
from kernelwright.sandbox.guest import Guest, Limits
from kernelwright.sandbox.manner import WATCHED
from kernelwright.verify import life
from kernelwright.verify.cases import (
    ADVISORY,
    PART_CHANGED,
    PERMUTED,
    Case,
    Cases,
    Posed,
    case_of,
    poison,
)
from kernelwright.verify.clock import time_alone
from kernelwright.verify.guests import LongLived, fitting, once_more, server, sharing
from kernelwright.verify.judging import Rules
from kernelwright.verify.program_task import at_aligned_shapes
from kernelwright.verify.rejection import Rejected, faults
from kernelwright.verify.room import Hold
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.task import META, ModuleTask, Task
from kernelwright.verify.timed_answers import TimedAnswers
from kernelwright.verify.trial import Trial
from kernelwright.verify.variation import other_weights, variations

MAX_CANDIDATES = 128
"""Candidates a guest runs before it is replaced. A GPU starts 3 to 4 contexts a second."""
REFRESH = 64
"""Candidates judged on the same inputs before others are drawn."""
MAX_POSED_BYTES = {"cpu": 1 << 29, "cuda": 1 << 30}
"""Inputs and answers of a judge that are kept, by device; a GPU has several judges."""
NUM_FAMILIES, NUM_VARIANTS = 5, 2
"""The number of families in a draw of cases, and of variants of each kind."""
MAX_TASKS = 1024
"""Tasks whose shapes are remembered."""
MAX_TOGETHER_BYTES = 1 << 28
"""Inputs and answers of cases that go to a guest in one request."""
AHEAD = 2
"""Candidates that are compiled before they are judged."""
OWN_CODE_S = 3.0
"""CPU time of a candidate's own code, when it is compiled: its loops run on descriptions of tensors
and have next to nothing to do. One that hangs there would cost the whole limit of wall time."""

Look = Callable[[Trial, Guest], None]
"""What is done with a candidate in its guest."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """A task at the sizes it is judged at."""

    task: Task
    """As it was given."""
    variants: dict[str, Task]
    """"base", and others by the shapes of their inputs."""
    examples: list[list[Any]]
    """Inputs to compile for."""

    @property
    def base(self) -> Task:
        return self.variants["base"]


@dataclass(slots=True)
class Prepared:
    """A candidate that is read and compiled."""

    trial: Trial
    shapes: Shapes

    def discard(self) -> None:
        """Remove the kernels that were compiled of it."""
        if self.trial.kernels is not None:
            removal.remove(self.trial.kernels)


@dataclass(slots=True)
class SharedCases(Cases):
    """Cases that several candidates of a task are judged on; answers are kept."""

    num_uses: int = 0
    _kept: dict[Case, Posed | None] = field(default_factory=dict)

    shape: str = "base"
    """The variant at other shapes, where there is one."""

    def all(self) -> Iterator[Case]:
        """Plain values of every variant, the first ones with a part changed or in another order,
        some of the other families at other shapes, and plain values of the base again under the
        other poison. Each draw of cases takes other families; `fresh` takes them all."""
        dice = random.Random(derive(self.seed, "families"))
        families = dice.sample([f for f in FAMILIES if f not in ("plain", *ADVISORY)], NUM_FAMILIES)
        kinds = [(name, "plain") for name in self.variants]
        kinds += [("base", PART_CHANGED), ("base", PERMUTED)]
        kinds += [(self.shape, family) for family in families]
        for number, kind in enumerate(kinds):
            yield case_of(self.seed, number, *kind)
        last = case_of(self.seed, len(kinds))
        yield replace(last, poison=poison(last.seed, is_nan=False), manner=WATCHED)

    def pose_if_defined(self, case: Case) -> Posed | None:
        if case not in self._kept:
            self._kept[case] = Cases.pose_if_defined(self, case)
        return self._kept[case]

    @property
    def num_bytes(self) -> int:
        return sum(posed.num_bytes for posed in self._kept.values() if posed is not None)


class Recycled:
    """Judges in one long-lived guest; `prepare` may run in another thread than `judge`.

    Args:
        seed: secret; inputs derive from it.
    """

    def __init__(self, rules: Rules, limits: Limits, seed: int) -> None:
        self.rules, self.seed = rules, seed
        limits = replace(limits, cpu_s=limits.cpu_s * MAX_CANDIDATES)  # of a guest's whole life
        runner = partial(server(rules.device).guest, limits, patient=True)
        on_gpu = rules.device.type == "cuda"
        self.guests = LongLived(runner, MAX_CANDIDATES, keeps_spare=on_gpu)
        limits = replace(limits, own_code_s=OWN_CODE_S)
        self.compilers = LongLived(partial(shared("compile").guest, limits), MAX_CANDIDATES)
        self._shapes_of: OrderedDict[Task, Shapes] = OrderedDict()
        self._cases_of: OrderedDict[Task, SharedCases] = OrderedDict()
        self._answers = TimedAnswers(rules, MAX_POSED_BYTES[rules.device.type])
        self._num_drawn = 0

    def close(self) -> None:
        """End the guests; others are started when they are needed."""
        self.guests.close()
        self.compilers.close()

    def judge_many(self, pairs: Iterable[tuple[Task, Candidate]]) -> Iterator[Verdict]:
        """Verdicts in the order of the pairs; the next candidates compile meanwhile."""
        waiting: deque[Future[Prepared]] = deque()
        with ThreadPoolExecutor(1, "compile") as compiling:
            try:
                for task, candidate in pairs:
                    shapes = self.shapes(task)
                    waiting.append(compiling.submit(self.prepare, shapes, candidate))
                    if len(waiting) > AHEAD:
                        yield self._judged(waiting.popleft().result())
                while waiting:
                    yield self._judged(waiting.popleft().result())
            finally:
                for each in waiting:
                    each.cancel()

    def _judged(self, prepared: Prepared) -> Verdict:
        try:
            return self.judge(prepared)
        finally:
            prepared.discard()

    # -- reading and compiling

    def shapes(self, task: Task) -> Shapes:
        """What to judge a task at. Not for `prepare`'s thread: the user's code runs, under seeds
        and types that PyTorch keeps one of for all threads.

        Raises:
            UsageError: the task cannot make inputs.
        """
        if task not in self._shapes_of:
            small = fitting(task, self.rules.device, is_generic=False)
            others = at_aligned_shapes(small, self.seed)
            examples = [each.example(META) for each in (task, *others.values())]
            if isinstance(task, ModuleTask):
                task.init()  # builds the module
            self._shapes_of[task] = Shapes(task, {"base": small, **others}, examples)
            if len(self._shapes_of) > MAX_TASKS:
                self._shapes_of.popitem(last=False)
        return self._shapes_of[task]

    def prepare(self, shapes: Shapes, candidate: Candidate) -> Prepared:
        """Static rules, and compilation for every shape it will be judged at.

        Raises:
            InfraError: a compile guest was lost twice for no fault of the candidate's.
        """
        return Prepared(once_more(partial(self._compiled, shapes, candidate)), shapes)

    def known(self, shapes: Shapes, candidate: Candidate, kernels: Path) -> Prepared:
        """A candidate that another judge has read, compiled and found right.

        Args:
            kernels: what was compiled of it.
        """
        trial = Trial(self.rules, candidate, grade="recycled", kernels=kernels)
        return Prepared(trial, shapes)

    def _compiled(self, shapes: Shapes, candidate: Candidate) -> Trial:
        trial = Trial(self.rules, candidate, grade="recycled")
        if shapes.variants["base"] is not shapes.task:
            trial.advice.append("judged on smaller sizes: the interpreter is slow")
        with trial.ending():
            trial.read(shapes.task)
            guest = self.compilers.next()
            try:
                trial.compile(shapes.task, shapes.examples, guest)
                if self.rules.device.type == "cuda":
                    trial.kernels = guest.take_kernels(trial.name)
            finally:
                _found_in(self.compilers, guest, trial)  # of what it leaves there, the run decides
        return trial

    # -- running

    def judge(self, prepared: Prepared) -> Verdict:
        """Run and probe a prepared candidate, whose kernels stay.

        Raises:
            UsageError: the task's reference fails.
            InfraError: a guest was lost twice for no fault of the candidate's.
        """

        def look(trial: Trial, guest: Guest) -> None:
            self._run(trial, prepared.shapes, guest)

        return self._concluded(prepared, look, partial(sharing, self.rules.device))

    def time(self, prepared: Prepared, errors: ErrorFigures | None, budget_s: float) -> Verdict:
        """Times of a prepared candidate that was found right, whose kernels stay; the caller has
        the GPU alone.

        Args:
            errors: that it had then; None where nothing is floating-point.
            budget_s: as of `clock.time_trial`.

        Raises:
            UsageError, InfraError: as `judge`.
        """

        def look(trial: Trial, guest: Guest) -> None:
            trial.errors = errors
            task = prepared.shapes.task
            session = Session(task, guest, self.rules.device)
            trial.load(session)
            time_alone(session, task, trial, self.seed, budget_s, self._answers)

        return self._concluded(prepared, look, nullcontext)

    def _concluded(self, prepared: Prepared, look: Look, hold: Hold) -> Verdict:
        trial = prepared.trial
        if trial.rejection is None:
            trial = once_more(partial(self._in_guest, trial, look, hold))
        return trial.verdict()

    def _in_guest(self, compiled: Trial, look: Look, hold: Hold) -> Trial:
        """The trial that was compiled, looked at in the guest while the GPU is held. The guest is
        retired unless it is as it was at birth, whatever is raised."""
        trial, guest = deepcopy(compiled), self.guests.next()
        with hold():
            try:
                with trial.ending():
                    look(trial, guest)
            except BaseException:
                self.guests.retire()
                raise
            found = _found_in(self.guests, guest, trial)
            trial.rejection = trial.rejection or found
            if trial.rejection is None:
                trial.passed("process unchanged")
        return trial

    def _run(self, trial: Trial, shapes: Shapes, guest: Guest) -> None:
        def open_session(task: Task, guest: Guest | None = None) -> Session:
            guest = guest or self.guests.next()
            is_drop_in = self.rules.is_drop_in
            session = Session(task, guest, self.rules.device, is_drop_in=is_drop_in)
            trial.load(session)
            return session

        session = open_session(shapes.base, guest)
        cases = self._cases(shapes)
        sessions = Lasting(session, open_session)
        first, *rest = filter(None, map(cases.pose_if_defined, cases.all()))
        trial.judge(session, cases.base, first)
        if isinstance(shapes.task, ModuleTask):
            for posed in rest:
                trial.judge_case(sessions, cases, posed)
            life.live(trial, sessions, cases)
        else:
            refusable = [posed for posed in rest if cases.may_refuse(posed.case)]
            for group in _groups(posed for posed in rest if not cases.may_refuse(posed.case)):
                trial.judge_together(session, cases, group)
            for posed in refusable:  # an exception would end the calls that follow in a group
                trial.judge_case(sessions, cases, posed)
        trial.silence(sessions, cases)

    # -- cases

    def _cases(self, shapes: Shapes) -> SharedCases:
        """Those the last candidate of this task was judged on, unless they are worn."""
        base = shapes.base
        cases = self._cases_of.pop(base, None)
        if cases is None or cases.num_uses >= REFRESH:
            self._num_drawn += 1
            seed = derive(self.seed, "recycled", self._num_drawn)
            cases = self._drawn(shapes, seed)
        self._drop_oldest()
        cases.num_uses += 1
        self._cases_of[base] = cases
        return cases

    def _drawn(self, shapes: Shapes, seed: int) -> SharedCases:
        """Cases under this seed. Of weights and of the task's other variants some are drawn."""
        base, dice = shapes.base, random.Random(seed)
        variants, device = dict(shapes.variants), self.rules.device
        if isinstance(base, ModuleTask) and base.is_redrawn:
            weights = other_weights(base, device, seed)
            variants |= dict(dice.sample([*weights.items()], min(NUM_VARIANTS, len(weights))))
        varied = variations(base, self.rules, seed)
        varied = dice.sample(varied, min(NUM_VARIANTS, len(varied)))
        variants |= {variation.name: variation.task for variation in varied}
        foreign = frozenset(variation.name for variation in varied if variation.is_foreign)
        return SharedCases(variants, self.rules, seed, foreign, shape=[*shapes.variants][-1])

    def _drop_oldest(self) -> None:
        limit = MAX_POSED_BYTES[self.rules.device.type]
        while self._cases_of and sum(c.num_bytes for c in self._cases_of.values()) > limit:
            self._cases_of.popitem(last=False)


def _groups(posed: Iterable[Posed]) -> Iterator[list[Posed]]:
    """Cases in a row whose tensors fit into one request."""
    group: list[Posed] = []
    for each in posed:
        if group and sum(p.num_bytes for p in group) + each.num_bytes > MAX_TOGETHER_BYTES:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _found_in(guests: LongLived, guest: Guest, trial: Trial) -> Rejected | None:
    """Have the guest forget the candidate. What it left there is given, and retires the guest, as
    does an end of it."""
    if not guest.alive:
        guests.retire()
        return None
    try:
        with faults():
            guest.forget(trial.name)
        trial.attest(guest)
    except Rejected as rejected:
        guests.retire()
        return rejected
    return None
