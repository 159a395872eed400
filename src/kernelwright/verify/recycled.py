"""The grade `recycled`: many candidates, one after the other, for training and wide search.

Candidates of one task share cases, inputs and answers (`verify.tasks.shared_cases`).
A guest without a GPU compiles each candidate ahead.

On a CPU each candidate has guests of its own, as under the grade `fresh`: a forked guest takes some
15 ms. On a GPU a new context takes 0.3 s, so that many candidates run in one guest that lives on.
There a candidate could spoil what comes after it. Inputs, expected values and decisions are the
host's in this grade too, so that a spoiled guest cannot know the right answers. It could reject
right candidates, or compute the outputs of later candidates for them. Five things limit this:

- After each candidate the guest is attested: settings, what still runs, identity of objects. A
  guest that differs from its birth, or has ended, is replaced. So is a guest after
  `MAX_CANDIDATES`, and after `MAX_REJECTED` rejections in a row.
- A control candidate of ours follows some candidates. Half of the controls are right and half are
  wrong, and their texts are drawn: no candidate can tell them from other candidates
  (`verify.controls`). Verdicts leave `settle` only after the guest has passed.
- Where a control fails, every candidate since the last control is judged again, alone in a guest.
- Where a guest ended or changed, the candidates that it rejected are judged again. If one verdict
  differs, the accepted ones are judged again too.
- `verify.many.audit` judges the best, and a share of the others, again under `fresh`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError
from kernelwright.core.verdict import ErrorFigures, Verdict
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.shared import removal
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.verify import life
from kernelwright.verify.controls import Control, draw
from kernelwright.verify.guests import LongLived, concluded, server, sharing
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected, faults
from kernelwright.verify.room import Hold
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.shared_cases import MAX_POSED_BYTES, CaseStore, Shapes, groups
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.clock import CandidateTiming, time_alone
from kernelwright.verify.times.timed_answers import TimedAnswers
from kernelwright.verify.trial import Trial

MAX_CANDIDATES = 64
"""Candidates that a guest on a GPU runs before it is replaced. A GPU starts 3 to 4 contexts a
second."""
MAX_REJECTED = 4
"""Candidates in a row that a guest on a GPU rejects before it is replaced."""
NUM_CONTROLS = 8
"""Controls that are drawn and compiled in the life of a judge."""
TOGETHER = 8
"""Candidates after which a control runs, at the latest."""
AHEAD = 2
"""Candidates that are compiled before they are judged."""
OWN_CODE_S = 3.0
"""CPU time of a candidate's own code, when it is compiled: its loops run on descriptions of tensors
and have next to nothing to do. A loop that hangs there would cost the whole limit of wall time."""

Look = Callable[[Trial, Guest], None]
"""The work on a candidate in its guest."""


@dataclass(slots=True)
class PreparedCandidate:
    """A candidate that is read and compiled."""

    trial: Trial
    shapes: Shapes

    def discard(self) -> None:
        """Removes the kernels that were compiled from the candidate."""
        if self.trial.kernels is not None:
            removal.remove(self.trial.kernels)


@dataclass(slots=True)
class Doubts:
    """The candidates of a guest whose verdicts no control has confirmed."""

    unconfirmed: list[tuple[PreparedCandidate, Trial]] = field(default_factory=list)
    """The candidates of the guest at hand, with their trials."""
    rows: list[tuple[list[tuple[PreparedCandidate, Trial]], bool]] = field(default_factory=list)
    """The candidates of each guest that has ended, and whether a control failed in that guest."""
    num_rejected: int = 0
    """In a row, by the guest at hand."""

    def add(self, prepared: PreparedCandidate, trial: Trial) -> None:
        """Notes a trial of the guest at hand."""
        self.unconfirmed.append((prepared, trial))
        self.num_rejected = 0 if trial.rejection is None else self.num_rejected + 1

    def guest_ended(self, *, control_failed: bool = False, num_enders: int = 1) -> None:
        """Notes that the guest at hand has ended, and that its verdicts may be wrong.

        Args:
            control_failed: a control was judged wrongly in this guest.
            num_enders: 1 where the last candidate ended the guest: if it ran alone since a control,
                no other could have done harm. 0 where the guest was lost in a step of ours.
        """
        if len(self.unconfirmed) > num_enders or control_failed:
            self.rows.append((self.unconfirmed, control_failed))
        self.unconfirmed, self.num_rejected = [], 0

    def confirmed(self) -> None:
        """Notes that a control passed: the guest's verdicts so far hold."""
        self.unconfirmed = []


class Recycled:
    """Judges candidates in a row. `prepare` may run in another thread than `judge`.

    Args:
        seed: secret; inputs derive from it.
    """

    def __init__(self, rules: Rules, limits: Limits, seed: int) -> None:
        self.rules, self.seed = rules, seed
        self.lives_on = rules.device.type == "cuda"
        """A guest runs many candidates."""
        self._store = CaseStore(rules, seed)
        self._compile_limits = replace(limits, own_code_s=OWN_CODE_S)
        self._start = partial(server(rules.device).guest, limits, patient=True)
        # CPU time is limited over a guest's life, in which it runs this many candidates.
        of_a_life = replace(limits, cpu_s=limits.cpu_s * MAX_CANDIDATES)
        start = partial(server(rules.device).guest, of_a_life, patient=True)
        self.guests = LongLived(start, MAX_CANDIDATES, keeps_spare=True)
        """On a GPU."""
        self._answers = TimedAnswers(rules, MAX_POSED_BYTES[rules.device.type])
        self._controls: deque[tuple[Control, PreparedCandidate]] = deque()
        self._doubts = Doubts()
        self._num_alone = 0

    def close(self) -> None:
        """Ends the guests and removes the controls' kernels. Guests are started again when
        needed."""
        self.guests.close()
        for _, prepared in self._controls:
            prepared.discard()
        self._controls.clear()

    def judge_many(self, pairs: Iterable[tuple[Task, Candidate]]) -> Iterator[Verdict]:
        """Yields verdicts in the order of the pairs, while the next candidates compile.

        Raises:
            UsageError, InfraError: as `judge`.
        """
        waiting: deque[Future[PreparedCandidate]] = deque()
        remaining = iter(pairs)
        with ThreadPoolExecutor(1, "compile") as compiling:

            def submit(count: int) -> None:
                for task, candidate in islice(remaining, count):
                    # In this thread: user code must not run beside other user code.
                    shapes = self.shapes(task)
                    waiting.append(compiling.submit(self.prepare, shapes, candidate))

            try:
                submit(AHEAD)
                while waiting:
                    row: list[PreparedCandidate] = []
                    while waiting and len(row) < (TOGETHER if self.lives_on else 1):
                        row.append(waiting.popleft().result())
                        submit(1)
                    yield from self._judged(row)
            finally:
                for unread in waiting:
                    unread.cancel()

    def _judged(self, row: list[PreparedCandidate]) -> list[Verdict]:
        """Judges a row of candidates, and returns their verdicts only after a control has
        passed."""
        try:
            verdicts = {id(prepared): self.judge(prepared) for prepared in row}
            verdicts |= {id(prepared): verdict for prepared, verdict in self.settle()}
            return list(verdicts.values())
        finally:
            for prepared in row:
                prepared.discard()

    # -- reading and compiling

    @property
    def num_guests(self) -> int:
        """The number of guests so far. Two candidates with an equal number shared a guest."""
        return self.guests.num_started if self.lives_on else self._num_alone

    def shapes(self, task: Task) -> Shapes:
        """As `CaseStore.shapes`."""
        return self._store.shapes(task)

    def prepare(self, shapes: Shapes, candidate: Candidate) -> PreparedCandidate:
        """Applies the static rules to a candidate, and compiles it for every shape that it will be
        judged at.

        Raises:
            InfraError: a compile guest was lost twice for no fault of the candidate's.
        """
        trial = Trial(self.rules, candidate, grade="recycled")
        if shapes.variants["base"] is not shapes.task:
            trial.advice.append("judged on smaller sizes: the interpreter is slow")
        with trial.ending():
            trial.read(shapes.task)
        if trial.rejection is None:
            trial = concluded(partial(self._compiled, trial, shapes), trial, self.rules.device)
        return PreparedCandidate(trial, shapes)

    def known(self, shapes: Shapes, candidate: Candidate, kernels: Path) -> PreparedCandidate:
        """Returns a candidate that another judge has read, compiled and accepted.

        Args:
            kernels: the folder of its compiled kernels.
        """
        trial = Trial(self.rules, candidate, grade="recycled", kernels=kernels)
        return PreparedCandidate(trial, shapes)

    def _compiled(self, read: Trial, shapes: Shapes) -> Trial:
        trial = deepcopy(read)
        with trial.ending(), shared("compile").guest(self._compile_limits) as guest:
            trial.compile(shapes.task, shapes.examples, guest)
            if self.lives_on:
                trial.kernels = guest.take_kernels(trial.name)
        return trial

    # -- running

    def judge(self, prepared: PreparedCandidate) -> Verdict:
        """Runs and probes a prepared candidate, whose kernels stay.

        On a GPU the verdict may change in the next `settle`.

        Raises:
            UsageError: the task's reference fails.
            InfraError: guests are lost for no fault of the candidate's.
        """
        if prepared.trial.rejection is not None:
            return prepared.trial.verdict()
        if not self.lives_on:
            return self._alone(prepared).verdict()
        if self.guests.is_worn or self._doubts.num_rejected >= MAX_REJECTED:
            # Many rejections in a row may be the work of an earlier candidate in this guest.
            self._control()
            self.guests.retire()
        trial = self._in_shared_guest(prepared)
        self._doubts.add(prepared, trial)
        if not self.guests.has_guest:
            self._doubts.guest_ended()
        return trial.verdict()

    def settle(self) -> list[tuple[PreparedCandidate, Verdict]]:
        """Returns the verdicts since the last call that change. The candidates' kernels must still
        be there.

        Raises:
            InfraError: guests are lost, or our own control cannot be judged.
        """
        if self._doubts.unconfirmed:
            self._control()
        rows, self._doubts.rows = self._doubts.rows, []
        return [again for row, control_failed in rows for again in self._again(row, control_failed)]

    def _again(
        self, row: list[tuple[PreparedCandidate, Trial]], differs: bool
    ) -> Iterator[tuple[PreparedCandidate, Verdict]]:
        """Judges the candidates of a doubtful guest again, each alone: the rejected ones first, and
        the accepted ones only where a verdict or a control differs."""
        for prepared, before in sorted(row, key=lambda judged: judged[1].rejection is None):
            if before.rejection is None and not differs:
                continue
            trial = self._alone(prepared)
            # One verdict that changes shows a spoiled guest: then no acceptance holds either.
            if trial.code is not before.code:
                differs = True
                yield prepared, trial.verdict()

    def _control(self) -> None:
        """Judges a control in the guest at hand. The guest's verdicts are then confirmed or in
        doubt."""
        if not self.guests.has_guest:
            self._doubts.guest_ended()
            return
        control, prepared = self._next_control()
        trial = self._in_shared_guest(prepared)
        if control.is_passed(trial) and self.guests.has_guest:
            self._doubts.confirmed()
            return
        self.guests.retire()
        self._doubts.guest_ended(control_failed=True)

    def _next_control(self) -> tuple[Control, PreparedCandidate]:
        """Returns one of a few controls, in turn. Controls are drawn and compiled at first use."""
        if len(self._controls) < NUM_CONTROLS:
            control = draw()
            prepared = self.prepare(self.shapes(control.task), control.candidate)
            if prepared.trial.rejection is not None:
                raise InfraError(f"a control candidate is refused: {prepared.trial.rejection}")
            self._controls.append((control, prepared))
        self._controls.rotate(1)
        return self._controls[0]

    def time(
        self, prepared: PreparedCandidate, errors: ErrorFigures | None, budget_s: float
    ) -> Verdict:
        """Takes times of a prepared candidate that was accepted, whose kernels stay. The caller has
        the GPU alone.

        Args:
            errors: figures from its judgement; None if no output is floating-point.
            budget_s: as of `clock.time_trial`.

        Raises:
            UsageError, InfraError: as `judge`.
        """

        def look(trial: Trial, guest: Guest) -> None:
            trial.errors = errors
            task = prepared.shapes.task
            session = Session(task, guest, self.rules.device)
            trial.load(session)
            timing = CandidateTiming(session, task, trial, self.seed)
            time_alone(timing, budget_s, self._answers)

        trial = prepared.trial
        if trial.rejection is None:
            step = partial(self._looked_at, trial, look, nullcontext)
            trial = concluded(step, trial, self.rules.device)
        return trial.verdict()

    def _alone(self, prepared: PreparedCandidate) -> Trial:
        """Judges the candidate in a guest of its own, and returns the trial."""
        begun = prepared.trial
        self._num_alone += 1

        def judged() -> Trial:
            trial = deepcopy(begun)
            with self._start() as guest, sharing(self.rules.device), trial.ending():
                self._run(trial, prepared.shapes, guest)
                # A case that the contract lets a candidate refuse may end a guest.
                if guest.alive and not self.rules.compares_alone:
                    trial.attest(guest)
                    trial.passed("process unchanged")
            return trial

        return concluded(judged, begun, self.rules.device)

    def _in_shared_guest(self, prepared: PreparedCandidate) -> Trial:
        """Judges the candidate in the guest that lives on, and returns the trial."""
        begun, device = prepared.trial, self.rules.device

        def look(trial: Trial, guest: Guest) -> None:
            self._run(trial, prepared.shapes, guest)

        return concluded(
            partial(self._looked_at, begun, look, partial(sharing, device)), begun, device
        )

    def _looked_at(self, begun: Trial, look: Look, hold: Hold) -> Trial:
        """Does `look` in the guest that lives on. The guest is retired unless it is then as it was
        at birth, also where an exception is raised."""
        trial, guest = deepcopy(begun), self.guests.next()
        with hold():
            try:
                with trial.ending():
                    look(trial, guest)
            except BaseException:
                # After an interrupted step the state of the guest is unknown.
                self.guests.retire()
                self._doubts.guest_ended(num_enders=0)
                raise
            difference = _difference(self.guests, guest, trial)
            if not self.rules.compares_alone:
                trial.rejection = trial.rejection or difference
            if trial.rejection is None:
                trial.passed("process unchanged")
        return trial

    def _run(self, trial: Trial, shapes: Shapes, guest: Guest) -> None:
        """Judges all cases of a trial. Other guests replace a guest that a refusal of the candidate
        ends."""
        with ExitStack() as others:

            def open_session(task: Task, guest: Guest | None = None) -> Session:
                guest = guest or others.enter_context(self._start())
                is_drop_in = self.rules.is_drop_in
                session = Session(task, guest, self.rules.device, is_drop_in=is_drop_in)
                trial.load(session)
                return session

            session = open_session(shapes.base, guest)
            self._judge_cases(trial, shapes, Lasting(session, open_session))

    def _judge_cases(self, trial: Trial, shapes: Shapes, sessions: Lasting) -> None:
        session, cases = sessions.session, self._store.cases(shapes)
        if self.rules.compares_alone:
            for posed in filter(None, map(cases.pose_if_defined, cases.plain())):
                trial.compare_alone(sessions.now(), cases.base, posed)
            return
        first, *rest = filter(None, map(cases.pose_if_defined, cases.all()))
        trial.judge(session, cases.base, first)
        if isinstance(shapes.task, ModuleTask):
            for posed in rest:
                trial.judge_case(sessions, cases, posed)
            life.live(trial, sessions, cases)
        else:
            refusable = [posed for posed in rest if cases.may_refuse(posed.case)]
            for group in groups(posed for posed in rest if not cases.may_refuse(posed.case)):
                trial.judge_together(session, cases, group)
            for posed in refusable:  # an exception would end the calls that follow in a group
                trial.judge_case(sessions, cases, posed)
        trial.silence(sessions, cases)


def _difference(guests: LongLived, guest: Guest, trial: Trial) -> Rejected | None:
    """Makes the guest forget the candidate, and attests the guest. A difference is returned and
    retires the guest; a dead guest is retired too."""
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
