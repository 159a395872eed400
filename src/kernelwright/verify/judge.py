"""The judge takes a task and a candidate, and returns a verdict.

`verify` is for kernels that are published, served or kept: a fresh guest for the candidate, every
input family, shape variants, all probes. `screen` ranks many candidates of one task in one guest on
two cases at most; its winners are verified. `verify_many` under the grade `recycled`
(verify.recycled) is for many candidates of many tasks.

A fault of a candidate becomes its verdict and is never raised. A wrong task raises `UsageError`,
and a failure of our own raises `InfraError`.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Self

import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError
from kernelwright.core.progress import Say
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.host.probe import require_guards
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.timing.deadline import NEVER, Deadline
from kernelwright.timing.stages import worked_s
from kernelwright.verify import checks, further, life
from kernelwright.verify.guests import concluded, fitting, server, sharing
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.recycled import Recycled
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.room import Hold
from kernelwright.verify.screening import Screening
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.tasks.cases import Cases, case_of, pose
from kernelwright.verify.tasks.load import available_bytes
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import at_other_shapes, beyond_int32
from kernelwright.verify.tasks.task import META, Task
from kernelwright.verify.tasks.variation import other_weights, variations
from kernelwright.verify.times import clock
from kernelwright.verify.trial import Trial
from kernelwright.verify.values import second_look
from kernelwright.verify.values.compare import compare

SLOWER = {"cpu": 1e5, "cuda": 1e3}
"""A candidate may take so many times the reference's time: on a CPU it runs in the interpreter."""
OWN_S = 1800.0
"""The most seconds of our own part of a judgement: draw inputs, call the reference, compare."""
TIMING_SHARE, GRAPHS_SHARE = 1 / 12, 1 / 40
"""The largest shares of `budget_s` for pairs of timed calls, and for pairs with CUDA graphs. The
first batch of pairs is taken in any case. Judging the cases may use up `budget_s` besides."""


class Judge:
    """Judges candidates on one device under one policy. A context manager.

    Args:
        options: device, precision, mode and the other choices that decide verdicts.
        limits: of each guest; None: as `options` say.
        large: judge a case of more than 2^31 elements too, where the GPU has room for it.
        progress: is told what `verify` does next.
        times: on CUDA, `verify` times accepted candidates; False where a clock owner does that.
        hold: makes the context in which `verify` and `screen` have something in the GPU's memory:
            processes that share a GPU take turns by it (`verify.room`).
        trusted: all candidates are our own. False where others or models wrote some: a machine
            without the essential guards is refused.

    Raises:
        UsageError: an option that no judge knows, or a device that is not there.
    """

    def __init__(
        self,
        options: JudgeOptions | None = None,
        *,
        limits: Limits | None = None,
        large: bool = False,
        progress: Say | None = None,
        times: bool = True,
        hold: Hold = nullcontext,
        trusted: bool = True,
    ) -> None:
        options = options or JudgeOptions()
        self.rules = options.resolve_rules()
        self.limits = limits or options.limits()
        self.grade = options.grade
        self.budget_s = options.budget_s
        self.seed = secrets.randbits(31) if options.seed is None else options.seed
        self.large = large
        self._takes_times = times and self.on_gpu
        self._say = progress or (lambda _: None)
        self.hold = hold
        self.trusted = trusted
        self._screening = Screening(self.rules, self.limits, self.seed, hold, trusted=trusted)
        self.recycled = Recycled(self.rules, self.limits, self.seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._screening.close()
        self.recycled.close()

    @property
    def on_gpu(self) -> bool:
        return self.rules.device.type == "cuda"

    def start(self) -> None:
        """Starts the servers that guests are forked from; the first candidate would wait for them.

        Raises:
            InfraError: a server cannot be started.
        """
        self._check_guards()
        server(self.rules.device).start()
        shared("compile").start()

    def start_ahead(self, *, compiles: bool = False) -> None:
        """Starts the servers in another thread. A failure is raised again where a guest is wanted.

        Args:
            compiles: candidates will use torch.compile.
        """
        Thread(target=self._start_quietly, args=(compiles,), daemon=True).start()

    def _start_quietly(self, compiles: bool) -> None:
        with suppress(InfraError):
            self.start()
            server(self.rules.device).start(compiles=compiles)

    # -- one candidate, fully

    def verify(self, task: Task, candidate: Candidate, *, deadline: Deadline = NEVER) -> Verdict:
        """Judges one candidate: `fresh` in a guest of its own, `recycled` in a guest that lives on.

        Args:
            deadline: of a `fresh` judgement. No case is left out: past the deadline there is no
                verdict.

        Raises:
            UsageError: the task's reference fails.
            InfraError: a guest was lost twice, and a control of ours fails in a new guest too.
            OutOfTime: the deadline passed before the verdict was known.
        """
        self._check_guards()
        if self.grade == "recycled":
            return next(self.recycled.judge_many([(task, candidate)]))
        read = Trial(self.rules, candidate)
        with read.ending():
            self._say("reading the source")
            read.read(task)
        if read.rejection is not None:
            return read.verdict()  # a refusal needs no room on the GPU
        # The server starts before the GPU is held, so that others need not wait for the start.
        server(self.rules.device).start(compiles=read.compiles)
        step = partial(self._with_guest, read, task, deadline)
        trial = concluded(step, read, self.rules.device)
        self._make_room()
        return trial.verdict()

    def verify_many(self, pairs: Iterable[tuple[Task, Candidate]]) -> Iterator[Verdict]:
        """Judges candidates one after the other, and yields verdicts in their order. Under
        `recycled`, the next candidates are compiled while one is judged.

        Raises:
            UsageError, InfraError: as `verify`, at the candidate at which it happens.
        """
        self._check_guards()
        if self.grade == "recycled":
            yield from self.recycled.judge_many(pairs)
        else:
            yield from (self.verify(task, candidate) for task, candidate in pairs)

    def _with_guest(self, read: Trial, task: Task, deadline: Deadline) -> Trial:
        """Returns the trial, judged in a new guest. Room is held only after the guest has started,
        which takes seconds beside others."""
        trial = deepcopy(read)
        with self._sharing():
            guest = server(self.rules.device).guest(self.limits, compiles=read.compiles)
        with guest, self.hold():
            guest.deadline = deadline
            return self._verify(trial, task, guest)

    def _verify(self, trial: Trial, task: Task, first: Guest) -> Trial:
        """Judges a trial that passed the static rules.

        Args:
            first: the guest for the first session. Other guests replace it when it is lost.
        """
        deadline = first.deadline
        with trial.ending():
            if not self.on_gpu:  # a GPU compiles for itself
                self._say("compiling for sm_90")
                self._compile(trial, task, deadline)
            if (small := fitting(task, self.rules.device, is_generic=False)) is not task:
                trial.advice.append("judged on smaller sizes: the interpreter is slow")
            start = partial(server(self.rules.device).guest, self.limits, compiles=trial.compiles)
            with ExitStack() as guests:

                def open_session(task: Task, guest: Guest | None = None) -> Session:
                    if guest is None:
                        guest = guests.enter_context(start())
                        guest.deadline = deadline
                    session = Session(
                        task, guest, self.rules.device, is_drop_in=self.rules.is_drop_in
                    )
                    trial.load(session)
                    return session

                self._say("loading")
                with self._sharing():
                    session = open_session(small, first)
                cases = self._cases(small)
                sessions = Lasting(session, open_session)
                self._judge_cases(trial, sessions, cases, deadline)
                trial.attest(sessions.now().guest)  # before its times are believed
                if self._takes_times:
                    self._say("taking times")
                    budget_s = TIMING_SHARE * self.budget_s
                    timing = clock.CandidateTiming(sessions.now(), cases.base, trial, self.seed)
                    clock.time_trial(timing, budget_s)
                self._probe(trial, sessions, cases)
                if self._takes_times and cases.is_large:
                    trial.advice.append(
                        "no time as a CUDA graph: beside such sizes no launch counts"
                    )
                elif self._takes_times:  # last: a capture that fails may cost the guest
                    self._say("timing CUDA graphs")
                    budget_s = GRAPHS_SHARE * self.budget_s
                    timing = clock.CandidateTiming(sessions.now(), cases.base, trial, self.seed)
                    clock.time_graphs(timing, budget_s)
        return trial

    def _cases(self, base: Task) -> Cases:
        """Returns the cases of the task and its variants: other shapes, weights, constants, sizes,
        arguments."""
        self._say("looking for variants that the reference accepts")
        shapes = at_other_shapes(base, self.seed)
        variants: dict[str, Task] = {"base": base, **shapes}
        if isinstance(base, ModuleTask) and base.is_redrawn:  # weights can be given
            variants |= other_weights(base, self.rules.device, self.seed)
        varied = variations(base, self.rules, self.seed)
        variants |= {variation.name: variation.task for variation in varied}
        foreign = {*shapes, *(variation.name for variation in varied if variation.is_foreign)}
        return Cases(variants, self.rules, self.seed, frozenset(foreign))

    def _judge_cases(
        self, trial: Trial, sessions: Lasting, cases: Cases, deadline: Deadline
    ) -> None:
        """Judge all cases in which the reference is defined, and calls in a row.

        Raises:
            Rejected: a case is wrong, or the candidate takes too long for all of them.
            InfraError: our own part takes too long.
        """
        begin_s, num_judged, reference_s = worked_s(), 0, 0.0
        for case in cases.all():
            deadline.check()
            self._check_time(trial, sessions, worked_s() - begin_s, reference_s)
            self._say(f"case {case.name}")
            # The lock is taken for each case, so that another process can take times in between.
            with self._sharing():
                posing_s = worked_s()
                posed = cases.pose_if_defined(case)
                reference_s += worked_s() - posing_s
                if posed is not None:
                    trial.judge_case(sessions, cases, posed)
                    num_judged += 1
                del posed  # before the next case is posed
            if cases.is_large:
                self._make_room()
        for case in cases.further(num_judged):
            with self._sharing():
                trial.judge_case(sessions, cases, pose(cases.base, case, self.rules))
        self._say("calls in a row")
        with self._sharing():
            life.live(trial, sessions, cases)
        self._check_time(trial, sessions, worked_s() - begin_s, reference_s)
        if self.large:
            with self._sharing():
                self._judge_large(trial, sessions.now(), cases.base)

    def _check_time(
        self, trial: Trial, sessions: Lasting, total_s: float, reference_s: float
    ) -> None:
        """Raises `Rejected` where the candidate has used up its time, and `InfraError` where we
        have.

        Args:
            total_s: seconds of work on all cases so far, in the judge and in the guest.
            reference_s: seconds of this time in which cases were drawn and the reference was
                called.
        """
        spent_s = sessions.session.spent_s
        allowed_s = max(self.budget_s, SLOWER[self.rules.device.type] * reference_s)
        if spent_s > allowed_s:
            message = f"{len(trial.cases)} cases took {spent_s:.0f} s, allowed {allowed_s:.0f} s"
            raise Rejected(Stage.RUN, Code.TIMEOUT, f"{message}: others were not judged")
        if total_s - spent_s > OWN_S:
            raise InfraError(f"drawing and answering the cases took {total_s - spent_s:.0f} s")

    def _judge_large(self, trial: Trial, session: Session, base: Task) -> None:
        """Judges one case with more than 2^31 elements where there is room; otherwise adds
        advice."""
        self._make_room()
        task = beyond_int32(base, available_bytes(self.rules.device)) if self.on_gpu else None
        if task is None:
            trial.advice.append("no case beyond 2^31 elements: no room, or sizes are fixed")
            return
        case = replace(case_of(self.seed, 0), variant="beyond 2^31 elements")
        self._say(f"case {case.name}")
        trial.judge(session, task, pose(task, case, self.rules))
        self._make_room()

    def _probe(self, trial: Trial, sessions: Lasting, cases: Cases) -> None:
        """Checks facts that right outputs do not show: decoys, share of GPU time, other layouts,
        process."""
        with self._sharing():
            if self.on_gpu:
                inputs = cases.first_inputs()
                trial.library_share = clock.library_share(sessions.now(), trial, inputs)
                del inputs
                checks.check_share(trial.library_share, self.rules.mode)
            self._say("calling it with its kernels silenced")
            trial.silence(sessions, cases)
            self._say("looking beyond the task")
            further.look(trial, sessions, cases)
            trial.attest(sessions.now().guest)
            trial.passed("process unchanged")

    # -- many, ranked

    def screen(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        repeats: int = 10,
        *,
        deadline: Deadline = NEVER,
        beside_compile: bool = False,
    ) -> list[Verdict]:
        """Judges candidates in one guest, on two cases each, or on one large case; verdicts in
        their order.

        On CUDA the accepted candidates are timed, interleaved with each other and the reference. A
        candidate that ends the guest gets its verdict, and the rest go on in another guest.

        Args:
            repeats: timed calls of each candidate in a round.
            beside_compile: time torch.compile of the task's program too, as "compiled".

        Raises:
            UsageError, InfraError, OutOfTime: as `verify`.
        """
        self._check_guards()
        verdicts = self._screening.screen(
            task, candidates, repeats, deadline, beside_compile=beside_compile
        )
        self._make_room()
        return verdicts

    def warm(
        self, task: Task, candidates: Sequence[Candidate], *, deadline: Deadline = NEVER
    ) -> None:
        """Compiles candidates, so that guests that share their kernels need not. Faults are not
        reported here; they show when the candidates are judged.

        Raises:
            OutOfTime: the deadline passed before all were compiled.
        """
        trials = [Trial(self.rules, candidate) for candidate in candidates]
        self._screening.compiled(trials, task, deadline)

    def agrees(self, task: Task, other: Task) -> bool:
        """Whether PyTorch's answer to `other` is near enough to the task's answer for kernels among
        its calls to be accepted.

        The answer is no where a library computes in another precision for another memory layout.

        Args:
            other: a task with the same inputs.

        Raises:
            UsageError: a reference fails.
        """
        with self.hold(), self._sharing():
            posed = pose(task, case_of(self.seed, 0), self.rules)
            answer = other.native_answer(posed.inputs, posed.case.seed, self.rules.device)
            comparison = compare(answer, posed.answer.outputs, self.rules.precision)
            del posed, answer
        self._make_room()
        return comparison.mismatch is None or second_look.is_close(comparison.errors)

    def rest(self) -> None:
        """Ends the guest that screens, which has memory on the GPU. Another is started when
        needed."""
        self._screening.rest()

    # -- parts

    def _compile(self, trial: Trial, task: Task, deadline: Deadline) -> None:
        """Compiles the candidate for sm_90 on descriptions of tensors. A kernel that only the
        interpreter accepts is refused here."""
        with shared("compile").guest(self.limits) as guest:
            guest.deadline = deadline
            trial.compile(task, [task.example(META)], guest)

    def _check_guards(self) -> None:
        if not self.trusted:
            require_guards(self.rules.device.type)

    def _sharing(self) -> AbstractContextManager[None]:
        return sharing(self.rules.device)

    def _make_room(self) -> None:
        """Returns cached GPU memory to the driver: the guests have allocators of their own."""
        if self.on_gpu:
            torch.cuda.empty_cache()
