"""One candidate under judgement: the steps it goes through and what they found."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.candidate import Candidate, uses_compile
from kernelwright.core.text import printable
from kernelwright.core.verdict import Checks, Code, ErrorFigures, Precision, Stage, Timing, Verdict
from kernelwright.sandbox.host import launchers
from kernelwright.sandbox.host.compile_check import load_to_compile
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.host.reading import MAX_NAME
from kernelwright.sandbox.shared.manner import WATCHED
from kernelwright.timing.stages import stage
from kernelwright.verify import checks
from kernelwright.verify.ignored import ignored_calls
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected, WrongOutputs, faults
from kernelwright.verify.rules.outside import lent_by
from kernelwright.verify.session import Called, Lasting, Session
from kernelwright.verify.static import findings
from kernelwright.verify.tasks.cases import Case, Cases, Posed, answered, fillers, poison
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.values import second_look
from kernelwright.verify.values.compare import Comparison, compare, compare_all, worse

REFUSALS = frozenset(
    {
        Code.LOAD_ERROR,
        Code.COMPILE_ERROR,
        Code.RUNTIME_ERROR,
        Code.OUT_OF_MEMORY,
    }
)
"""Ways in which a candidate refuses a call."""
OUTSIDE = REFUSALS | {Code.NOT_LAUNCHED}
"""The two permitted answers to a call that the task does not ask for: refuse the call, or compute
the right values in PyTorch."""
MAX_MESSAGE, MAX_ADVICE, MOST_ADVICE = 2_500, 1_000, 100
"""Characters of a verdict's message and of each advice; how many advices."""
MAX_LAUNCHED = 50_000
"""Characters of all names of kernels. A worker's message has room for eight verdicts."""
KERNELS_A_CALL = 2
"""Kernels that may compute one call: one for the parts of a long row, and one that joins them."""


@dataclass(slots=True)
class Trial:
    """One candidate under judgement: its facts so far, the steps that judge it, and its verdict."""

    rules: Rules
    candidate: Candidate
    name: str = "candidate"
    grade: str = "fresh"
    names_policies: bool = True
    """Where its outputs are wrong, say which other policy would let them pass: that takes the
    reference's answers under each."""
    kernels: Path | None = None
    """A folder of kernels compiled from this candidate before."""
    isolation: str = ""
    errors: ErrorFigures | None = None
    launches: dict[str, int] = field(default_factory=dict)
    times: dict[str, Timing] = field(default_factory=dict)
    speedup_interval: tuple[float, float] | None = None
    noise: float | None = None
    library_share: float | None = None
    cases: list[str] = field(default_factory=list)
    checks: dict[str, None] = field(default_factory=dict)
    """Names of the checks passed, in order of first passing."""
    advice: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Variants in which the candidate raises an exception, as it may."""
    rejection: Rejected | None = None

    @property
    def code(self) -> Code:
        return Code.OK if self.rejection is None else self.rejection.code

    def passed(self, *names: str) -> None:
        self.checks.update(dict.fromkeys(names))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Catches a rejection inside, which ends the trial and becomes its verdict."""
        try:
            yield
        except Rejected as rejection:
            # What led to it may hold gigabytes of tensors.
            rejection.__traceback__ = rejection.__cause__ = rejection.__context__ = None
            self.rejection = rejection

    # -- steps

    @property
    def compiles(self) -> bool:
        """Whether the candidate may put functions inside torch.compile."""
        return uses_compile(self.candidate.source)

    @stage("static rules")
    def read(self, task: Task) -> None:
        """Applies the static rules. Hints become advice; the first refusal is raised as
        `Rejected`."""
        mode = self.rules.mode
        if self.rules.checks is not Checks.ALL:
            return
        if self.compiles and self.grade == "recycled":  # loading the compiler changes the process
            message = "torch.compile is judged in the grade fresh alone"
            raise Rejected(Stage.STATIC, Code.FORBIDDEN, message)
        # What other people's kernels compute would pass for the candidate's own in pure mode.
        lent = lent_by(task.text) if mode == "hybrid" else frozenset()
        all_findings = findings(self.candidate.source, mode, task.entry, lent=lent)
        refused = [finding for finding in all_findings if not finding.is_hint]
        self.advice += [
            f"line {f.line}: {f.message}; {f.remedy}" for f in all_findings if f.is_hint
        ]
        if refused:
            first = refused[0]
            message = f"{first.rule}: {first.message}; {first.remedy}"
            raise Rejected(Stage.STATIC, first.code, message, first.line)
        self.passed("static rules")

    @stage("compile")
    def compile(self, task: Task, shapes: Sequence[list[Any]], guest: Guest) -> None:
        """Compiles the kernels for sm_90 in a guest without a GPU, for inputs of each of these
        shapes (tensors may be on the meta device). For a GPU, makes launchers too. Raises
        `Rejected` on failure."""
        init = task.init() if isinstance(task, ModuleTask) else None
        try:
            with faults(Stage.COMPILE):
                load_to_compile(guest, self.name, self.candidate.source, init)
                signatures = [
                    launchers.plain_signature(signature)
                    for inputs in shapes
                    for signature in guest.compile(inputs, self.name, measures=False).signatures
                ]
        except Rejected as rejected:
            if rejected.code is not Code.RUNTIME_ERROR:
                raise
            # Host code that looks at values may fail on untouched memory: the run decides.
            self.advice.append(f"not compiled for sm_90: {rejected.message}")
            return
        if self.rules.device.type == "cuda":
            for signature in {s for s in signatures if s is not None}:
                launchers.make(signature)
        self.passed("compiles for sm_90")

    def load(self, session: Session) -> None:
        session.load(self.name, self.candidate.source, self.kernels)
        self.isolation = session.guest.isolation
        self.passed("loads")

    def judge_case(self, sessions: Lasting, cases: Cases, posed: Posed) -> None:
        """Judges one case. Raises `Rejected`, or adds advice where the contract allows the
        fault."""
        case, task = posed.case, cases.variants[posed.case.variant]
        try:
            self.judge(sessions.now(), task, posed)
        except Rejected as rejected:
            # A crash or a timeout is never a refusal: the process of a user would end too.
            is_refusal = rejected.code in OUTSIDE and cases.may_refuse(case)
            if not is_refusal and not cases.is_advisory(case):
                raise
            if is_refusal:
                self.refused.add(case.variant)
            self.advice.append(f"not as the reference: {rejected.message}")

    def judge(self, session: Session, task: Task, posed: Posed) -> None:
        """Judges one case, from the call to every check; a `Rejected` names the case. A candidate
        that uses torch.compile answers some cases twice: uncompiled, so that its launches are seen,
        and compiled."""
        self._judge_call(session, task, posed)
        inside = session.compiled(self.name, posed.inputs, posed.case.manner)
        if inside is not None:
            compiled = replace(posed, case=replace(posed.case, manner=inside))
            self._judge_call(session, task, compiled)

    @stage("compare")
    def _judge_call(self, session: Session, task: Task, posed: Posed) -> None:
        with _in_case(posed.case.name):
            called = session.call(self.name, task, posed.call())
            comparison = compare(called.ran.outputs, posed.answer.outputs, self.rules.precision)
            self.check(session, task, posed, called, comparison)

    @stage("compare")
    def compare_alone(self, session: Session, task: Task, posed: Posed) -> None:
        """Compares the values of one call, without any other check (`Checks.VALUES`)."""
        with _in_case(posed.case.name):
            case, answer = posed.case, posed.answer
            plain = replace(posed.call(), manner=WATCHED, wanted_inputs=())
            ran = session.call(self.name, task, plain).ran
            checks.check_structure(ran, answer)
            errors = checks.check_values(ran, answer.outputs, self.rules.precision)
            self.errors = worse(self.errors, errors)
            self.cases.append(case.name)
            self.passed("outputs")

    @stage("run together")
    def judge_together(self, session: Session, cases: Cases, posed: Sequence[Posed]) -> None:
        """Judges several cases of a task without state in one request, with every check of each
        case.

        These very calls are compared: a candidate that remembers earlier calls would answer
        otherwise if it were asked again.
        """
        calls = [p.call() for p in posed]
        with _in_case(f"one of {len(posed)} in a row, the first {posed[0].case.name}"), faults():
            rans = session.guest.run_many(self.name, calls)
        answers = [(ran.outputs, p.answer.outputs) for ran, p in zip(rans, posed, strict=True)]
        comparisons = compare_all(answers, self.rules.precision)
        for ran, p, comparison in zip(rans, posed, comparisons, strict=True):
            with _in_case(p.case.name):
                try:
                    self.check(session, cases.variants[p.case.variant], p, Called(ran), comparison)
                except Rejected as rejected:
                    if not cases.is_advisory(p.case):
                        raise
                    self.advice.append(f"not as the reference: {rejected.message}")

    def check(
        self,
        session: Session,
        task: Task,
        posed: Posed,
        called: Called,
        comparison: Comparison,
        *,
        looks_again: bool = True,
    ) -> None:
        """Checks everything that one call shows: process, outputs, state, inputs, memory, launches,
        operators.

        Args:
            comparison: of the call's outputs with the expected values.
            looks_again: give outputs with small errors a second look. Then `task` must start from
                the state before the call.

        Raises:
            Rejected: the first check that fails.
        """
        checks.check_process(session.guest.born, called.ran.process)
        is_module = isinstance(task, ModuleTask)
        is_exact = self.rules.is_drop_in and is_module
        checks.check_structure(called.ran, posed.answer, is_exact=is_exact)
        try:
            self.errors = worse(self.errors, checks.check_comparison(comparison))
        except WrongOutputs as wrong:
            if not looks_again:
                raise
            self._look_again(session, task, posed, called, wrong)
        self._check_beside_values(session, called, posed)

    def _check_beside_values(self, session: Session, called: Called, posed: Posed) -> None:
        """Checks state, inputs, memory, launches and operators, and notes the passed checks."""
        case, precision = posed.case, self.rules.precision
        errors = checks.check_state(
            called, posed.answer, precision, is_drop_in=self.rules.is_drop_in
        )
        self.errors = worse(self.errors, errors)
        if session.refuses_grad:
            self.advice.append(
                "the candidate refuses calls in grad or inference mode: judged under no_grad"
            )
        checks.check_inputs(called.ran, posed.answer, precision)
        checks.check_ownership(called.ran, posed.answer)
        if advice := checks.check_marks(called.ran, is_drop_in=self.rules.is_drop_in):
            self.advice.append(advice)
        checks.check_bounds(called.ran)
        if not called.is_compiled:  # Inductor's launches bypass the guest's count
            checks.check_launches(called.ran)
        if self.rules.mode == "pure":
            checks.check_dispatch(called.ran)
            self.passed("no library compute")
        self.launches = self.launches or called.ran.launches
        self.cases.append(case.name)
        self.passed("outputs", "inputs unchanged", "no aliasing", "own kernels launched")
        self.passed("settings unchanged", "nothing left running")
        if posed.answer.has_state:
            self.passed("state")

    def _look_again(
        self,
        session: Session,
        task: Task,
        posed: Posed,
        called: Called,
        wrong: WrongOutputs,
    ) -> None:
        """Asks whether wrong values are magnified rounding, or memory that was never written.
        Raises `Rejected` with the more precise reason, if rounding does not explain the values."""
        case = posed.case
        try:
            reference = second_look.ReferenceCall(
                task, posed.inputs, case.generator, posed.answer.outputs
            )
            errors = second_look.look_again(wrong, called.ran.outputs, reference, self.rules)
        except WrongOutputs as still:
            wrong = still
        else:
            self.errors = worse(self.errors, errors)
            return
        self.errors = worse(self.errors, wrong.errors)
        if wrong.code is Code.WRONG_STRUCTURE:  # the values are not here
            raise wrong
        # NaN that comes and goes with the poison marks elements that no kernel wrote.
        was_nan = case.poison != case.poison
        other = poison(case.seed, is_nan=not was_nan)
        manner = replace(WATCHED, turn=case.manner.turn)
        call = replace(posed.call(), poison=other, manner=manner, wanted_inputs=())
        again = session.call(self.name, task, call).ran
        if again.structure == called.ran.structure and _nan_follows(called, again.outputs, was_nan):
            message = f"part of the output is never written ({wrong.message})"
            raise Rejected(Stage.PROBE, Code.UNWRITTEN, message)
        if self.names_policies:
            self._name_other_policies(task, posed, called)
        raise wrong

    def _name_other_policies(self, task: Task, posed: Posed, called: Called) -> None:
        """Adds advice that names each policy that would accept these outputs: policies never differ
        silently."""
        for precision in Precision:
            if precision is self.rules.precision:
                continue
            other = answered(
                task, posed.case, posed.inputs, replace(self.rules, precision=precision)
            )
            with suppress(Rejected):
                checks.check_values(called.ran, other.answer.outputs, precision)
                self.advice.append(f"this case would be right under --precision {precision}")

    @stage("silence kernels")
    def silence(self, sessions: Lasting, cases: Cases) -> None:
        """Switches off all of the candidate's kernels together, and then each of several kernels
        alone: the outputs must be wrong then in a telling case. Else a kernel is a decoy, and
        `Rejected` is raised. In `pure` mode, `KERNELS_A_CALL` kernels may be idle for each call
        without effect (`ignored_calls`)."""
        names = tuple(self.launches)
        groups = [names, *((name,) for name in names if len(names) > 1)]
        num_idle = 0
        for group in groups:
            cases_in_turn = chain(cases.telling(), cases.doubts())
            telling = (case for case in cases_in_turn if case.variant not in self.refused)
            if any(self._matters(sessions.now(), cases, case, group) for case in telling):
                continue
            num_idle += 1
            what = "the candidate's kernels" if group == names else f"the kernel {group[0]}"
            message = f"the outputs are right without {what}"
            ignored = () if group == names else ignored_calls(cases)
            why = f"the task does not depend on {', '.join(ignored)} either" if ignored else ""
            if num_idle > KERNELS_A_CALL * len(ignored) or self.rules.mode != "pure":
                raise Rejected(Stage.PROBE, Code.DECOY, f"{message}: a decoy{why and f'; {why}'}")
            self.advice.append(f"{message}: {why}")
        self.passed("outputs depend on each own kernel")

    def _matters(
        self, session: Session, cases: Cases, case: Case, kernels: tuple[str, ...]
    ) -> bool:
        """Whether the outputs are wrong when these kernels do nothing, whatever fresh memory holds.
        False where the case is not defined, or where the kernels would not run in this call
        anyway."""
        posed, task = cases.pose_if_defined(case), cases.variants[case.variant]
        if posed is None:
            return False
        # Outputs without elements cannot be wrong, and no kernel has work there.
        if not any(output.numel() for output in posed.answer.outputs.native):
            return True
        return any(
            self._is_wrong(session, task, posed, kernels, filler)
            for filler in fillers(posed.case.seed)
        )

    def _is_wrong(
        self, session: Session, task: Task, posed: Posed, kernels: tuple[str, ...], filler: float
    ) -> bool:
        """Whether outputs or state are wrong in this case, without these kernels. A candidate that
        kept the kernels' results from earlier calls is loaded anew and called for the first
        time."""
        call = replace(
            posed.call(), poison=filler, skip_kernels=kernels, manner=WATCHED, wanted_inputs=()
        )
        try:
            called = session.call(self.name, task, call)
            if len(kernels) < len(self.launches) and not called.ran.suppressed:
                again = f"{self.name}_again"
                session.load(again, self.candidate.source)
                called = session.call(again, task, call)
                with faults():
                    session.guest.forget(again)
                if not called.ran.suppressed:
                    return False
            checks.check_structure(called.ran, posed.answer)
            reference = second_look.ReferenceCall(
                task, posed.inputs, call.seed, posed.answer.outputs
            )
            # The rule that judges the outputs with kernels.
            second_look.check_values(called.ran.outputs, reference, self.rules)
            checks.check_state(called, posed.answer, self.rules.precision, is_drop_in=False)
            checks.check_inputs(called.ran, posed.answer, self.rules.precision)
        except Rejected:
            return True
        return False

    @stage("attest")
    def attest(self, guest: Guest) -> None:
        """Checks that the guest's process is as it was before it ran anything. Raises
        `Rejected`."""
        with faults():
            now = guest.attest()
        checks.check_process(guest.born, now)

    # -- result

    def verdict(self) -> Verdict:
        rejection = self.rejection
        accepted = rejection is None
        message = _summary(self.cases, self.checks) if rejection is None else rejection.message
        launches = {printable(name, MAX_NAME): count for name, count in self.launches.items()}
        ends = zip(launches, accumulate(map(len, launches)), strict=True)
        named = {name: launches[name] for name, end in ends if end <= MAX_LAUNCHED}
        # The candidate's own words end here: what comes after prints them and writes them down.
        advice = dict.fromkeys(printable(said, MAX_ADVICE) for said in dict.fromkeys(self.advice))
        return Verdict(
            accepted=accepted,
            stage=Stage.ACCEPTED if rejection is None else rejection.stage,
            code=self.code,
            message=printable(message, MAX_MESSAGE),
            mode=self.rules.mode,
            precision=self.rules.precision.value,
            device=self.rules.device_name,
            line=None if rejection is None else rejection.line,
            errors=self.errors,
            times=self.times,
            speedup_interval=self.speedup_interval,
            noise=self.noise,
            launches=named,
            library_share=self.library_share,
            cases=tuple(self.cases),
            checks=tuple(self.checks),
            contract=self.rules.contract.value,
            grade=self.grade,
            isolation=self.isolation,
            advice=tuple(advice)[:MOST_ADVICE],
        )


@contextmanager
def _in_case(name: str) -> Iterator[None]:
    """Adds the name of the case to the message of a rejection inside."""
    try:
        yield
    except Rejected as rejected:
        rejected.message += f" [case {name}]"
        raise


def _summary(cases: Iterable[str], passed: Iterable[str]) -> str:
    return f"right in {len(list(cases))} cases, {len(list(passed))} checks passed"


def _nan_follows(called: Called, again: tuple[torch.Tensor, ...], was_nan: bool) -> bool:
    """Whether NaN shows exactly where fresh memory held NaN, in one of two calls on the same
    inputs."""
    first, second = called.ran.outputs, again
    under_nan, under_finite = (first, second) if was_nan else (second, first)
    return any(
        a.is_floating_point() and a.shape == b.shape and bool((a.isnan() & ~b.isnan()).any())
        for a, b in zip(under_nan, under_finite, strict=False)
        if not (a.is_meta or b.is_meta)
    )
