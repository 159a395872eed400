"""A candidate in use: calls in a row, without a return to the state at the start.

A single call does not show that a module counts its calls, keeps results, reuses the memory of its
outputs, or packed its weights once. Here reference and candidate make the same calls. After each
call outputs and state are compared.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Code, Precision, Stage
from kernelwright.programs.draws.structure import structures
from kernelwright.sandbox.shared.manner import Manner
from kernelwright.timing.stages import stage
from kernelwright.verify.rejection import Rejected, faults
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.tasks.alike import (
    permuted,
    permuted_along,
    swapped,
    with_column_of,
    with_parts_of,
)
from kernelwright.verify.tasks.cases import (
    MAX_FIRST_TURN,
    Case,
    Cases,
    Posed,
    fits_cpu,
    generator_seed,
    manner_of,
    poison,
)
from kernelwright.verify.tasks.module_task import ModuleTask, closes_over_parts
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.trial import REFUSALS, Trial
from kernelwright.verify.values.compare import compare
from kernelwright.verify.values.live import Live, num_tensors

WAYS = ("copy", "load_state_dict", "copy")
DROP_IN_WAYS = (*WAYS, "data", "assign")
"""How users change weights between calls. New memory under a parameter does not change its version
counter, and honest kernels may follow version counters. So "data" is for `drop-in` alone, and so is
"assign": `load_state_dict` puts new objects in the place of parameters."""


NUM_PARTS, MAX_PART = 3, 1000
"""Steps in which a part of one parameter changes, each time of the next parameter."""

NUM_RISES = 5
"""So many calls in a row must not each leave more memory than the call before. Caches by shape, by
weights and of a few results stop growing."""
MAX_KEPT = 4
"""The most earlier calls whose outputs a candidate may keep: the last calls, for debugging."""


@stage("live")
def live(trial: Trial, sessions: Lasting, cases: Cases) -> None:
    """Makes calls in a row on one instance, without a reset. A module also gets new weights, a
    second instance, a deep copy and moved parameters between calls.

    Args:
        sessions: the candidate is loaded in their session.

    Raises:
        Rejected: an answer or the state is wrong.
        UsageError: the reference fails.
    """
    life = _Life(trial, sessions, cases)
    life.calls_in_a_row()
    if isinstance(cases.base, ModuleTask) and not cases.is_large:
        life.weights_and_copies()
    trial.passed("calls in a row")


@dataclass(frozen=True, slots=True)
class BothSides:
    """An instance of the candidate, and the reference that makes the same calls."""

    session: Session
    reference: Live
    instance: int
    """The number of the candidate's instance in the session."""


@dataclass(slots=True)
class _Life:
    """The calls in a row of one candidate, and what the next call depends on."""

    trial: Trial
    sessions: Lasting
    cases: Cases
    num_calls: int = 0
    num_draws: int = 0
    weights: dict[int, ModuleTask] = field(default_factory=dict)
    has_state: bool = False
    """A call changed the state of the reference."""
    keeps_outputs: bool = False
    """The reference keeps memory of its outputs: state, or inputs."""
    kept_bytes: list[int] = field(default_factory=list)
    """The bytes that the candidate keeps after each call in a row."""

    def calls_in_a_row(self) -> None:
        """Makes calls of one instance with new inputs, with the same tensor objects and new
        contents, with the first inputs again, and with inputs that are much alike.

        A candidate that keeps results under an incomplete key (an address, an object, a sample of
        the values) gives a stale result in one of these calls.
        """
        sides = self._both_sides(self.sessions.now())
        say = partial(self._call, sides, "in a row")
        first = self._inputs()
        say(inputs=first)
        for _ in range(2):
            say(keeps_objects=True)
        say(inputs=first)
        for other in self._alike(first):
            say(inputs=other)
        self._check_kept(sides.reference, self._end(sides))

    def _check_kept(self, reference: Live, num_calls: int) -> None:
        """Checks the memory that the candidate keeps after the calls in a row. A ring of buffers
        returns the memory of an output again in some later call, and a memo grows with each call.

        Args:
            reference: after the same calls.
            num_calls: calls with outputs whose memory lives on, though nobody else has them.

        Raises:
            Rejected: the candidate keeps outputs of too many calls, or more memory after each.
        """
        last = self.kept_bytes[-NUM_RISES - 1 :]
        if num_calls > MAX_KEPT:
            message = f"the candidate keeps the outputs of {num_calls} calls that nobody else holds"
            code, remedy = Code.ALIASED, "allocate outputs in each call"
        elif len(last) > NUM_RISES and all(a < b for a, b in pairwise(last)):
            message = f"the candidate keeps more memory after each call: {last[-1]} bytes so far"
            code, remedy = Code.STATE_DIFFERS, "keep no results, and bound every cache"
        else:
            return
        # Asked last, because the answer takes calls of the reference.
        if not (self.has_state or self.keeps_outputs or self._keeps_tensors(reference)):
            raise Rejected(Stage.PROBE, code, f"{message}; {remedy}")

    def _keeps_tensors(self, reference: Live) -> bool:
        """Whether calls of the reference change lists, dicts or objects, or leave tensors there."""
        base, device = self.cases.base, self.cases.rules.device
        if not isinstance(base, ModuleTask):
            return False
        now = reference.module_now()
        if now is None or num_tensors(now) > num_tensors(base.module(device)):
            return True
        return base.has_hidden_state(device)

    def _alike(self, first: list[Any]) -> Iterator[list[Any]]:
        """Yields inputs that differ little from the inputs before: in another order, exchanged,
        with a part changed, with another first or last column. Inputs that the reference refuses
        are left out."""
        other, seed = self._inputs(), self.cases.seed
        kept = structures(first, other)
        changes: list[Callable[[Any], Any]] = [partial(permuted, seed=seed)]
        for dim in (-1, 0):  # a key of sums of rows, or of columns, misses such a change
            changes.append(partial(permuted_along, seed=seed, dim=dim))
        mixed = first
        for change in changes:
            changed = [
                value if structure is not None else change(value)
                for value, structure in zip(mixed, kept, strict=True)
            ]
            # In another order, positions of a large table may come into the input of a small table,
            # where they are out of range. Then floats alone change.
            if not self._is_answered(changed):
                changed = [
                    new if _is_float(value) else value
                    for value, new in zip(mixed, changed, strict=True)
                ]
                # Where the CPU cannot try them, positions that are inputs are in range as before.
                may_call = self._is_answered if fits_cpu(changed) else self._has_answer
                if not may_call(changed):
                    continue
            yield changed
            mixed = changed
        exchanged = swapped(mixed)
        if exchanged is not None and self._is_answered(exchanged):
            yield exchanged
            mixed = exchanged
        # One value in 256 changes: a key that samples the inputs misses such a change.
        mixed = with_parts_of(mixed, other, seed)
        if self._is_answered(mixed):
            yield mixed
        for column in (0, -1):
            fresh = self._inputs()
            mixed = [
                value if structure is not None else with_column_of(value, new, column)
                for value, new, structure in zip(mixed, fresh, kept, strict=True)
            ]
            if self._is_answered(mixed):
                yield mixed

    def _is_answered(self, inputs: list[Any]) -> bool:
        """Whether the reference accepts these inputs, which no draw gave. On a GPU the CPU tries
        them first, because an index out of range ends the CUDA context."""
        return self.cases.may_run(self.cases.base, inputs, 0) and self._has_answer(inputs)

    def _has_answer(self, inputs: list[Any]) -> bool:
        """Whether the reference answers these inputs on the judge's device without an error."""
        base = self.cases.base
        try:
            base.native_answer(inputs, 0, self.cases.rules.device)
        except UsageError:
            return False
        return True

    def _inputs(self) -> list[Any]:
        """Draws plain inputs under a seed that no other call uses."""
        self.num_draws += 1
        seed = derive(self.cases.seed, "life", "inputs", self.num_draws) % (1 << 31)
        return self.cases.base.inputs(seed, "plain", self.cases.rules.device)

    def weights_and_copies(self) -> None:
        """Calls the instance after each change that a user makes: new weights in place, by
        `load_state_dict` and in new memory; a second instance; a deep copy beside the original;
        moved parameters."""
        task, name = self.cases.base, self.trial.name
        assert isinstance(task, ModuleTask)
        session = self.sessions.now()
        sides = self._both_sides(session)
        ways = list(DROP_IN_WAYS if self.trial.rules.is_drop_in else WAYS)
        random.Random(self.cases.seed).shuffle(ways)
        # Two instances with other weights, called in turn: state of the class or of the file would
        # serve the wrong instance.
        twin = self._both_sides(session)
        its_own = self._renew(twin, -1, "copy")
        self._renew(sides, -2, "copy")
        self._call(twin, "a second instance", its_own)
        self._call(sides, "the first beside a second", self._with(-2))
        now = self._with(-2)
        for number, how in enumerate(ways):
            # The same inputs before and after: a result that is kept without the weights is stale.
            last = self._inputs()
            self._call(sides, "before new weights", now, inputs=last)
            if number == len(ways) - 1:  # sums of the weights stay
                self.weights[number] = now.with_permuted_weights(self.cases.seed)
            now = self._renew(sides, number, how)
            what = f"the same inputs after new weights ({how})"
            self._call(sides, what, now, inputs=last)
        part = random.Random(derive(self.cases.seed, "part")).randrange(MAX_PART)
        for number in range(part, part + NUM_PARTS):
            # A kernel that watches one parameter, or one value, for updates misses this change.
            before = now.state(self.cases.rules.device)
            now = now.with_part_of_weights_moved(derive(self.cases.seed, "part") >> 1, number)
            self._give(sides, now, "copy", before)
            what = "the same inputs after a part of the weights is new"
            self._call(sides, what, now, inputs=last)
        other = self._if_possible(
            "a deep copy", lambda: session.guest.duplicate(name, sides.instance)
        )
        if other is not None:
            copy = BothSides(session, sides.reference.duplicate(), other)
            its_own = self._renew(copy, len(ways), "copy")
            self._call(copy, "a deep copy with weights of its own", its_own)
            self._call(sides, "the original beside its copy", now)
            session.guest.drop(name, other)
        # `.to` gives parameters new memory: addresses that a kernel keeps are dangling then.
        self._if_possible("moved parameters", lambda: session.guest.move(name, sides.instance))
        self._call(sides, "after parameters have moved", now)
        now = self._renew(sides, len(ways) + 1, "copy")
        self._call(sides, "after new weights of moved parameters", now)
        self._end(twin)
        self._end(sides)

    def _both_sides(self, session: Session) -> BothSides:
        """Returns a new instance of the candidate, and the reference in the state at the start. The
        answers of the reference are for the policy in force."""
        rules, base = self.cases.rules, self.cases.base
        with base.usage():
            reference = base.live(rules.device, tf32=rules.precision is Precision.TF32)
        return BothSides(session, reference, session.instance(self.trial.name, base))

    def _with(self, number: int) -> ModuleTask:
        """Returns the task with the weights of this number, which are drawn at the first use."""
        task = self.cases.base
        assert isinstance(task, ModuleTask)
        if number not in self.weights:
            seed = derive(self.cases.seed, "life", number)
            self.weights[number] = task.with_other_weights(seed)
        return self.weights[number]

    def _renew(self, sides: BothSides, number: int, how: str) -> ModuleTask:
        """Gives both sides the weights of this number, and returns the task with these weights."""
        other = self._with(number)
        self._give(sides, other, how)
        return other

    def _give(
        self,
        sides: BothSides,
        task: ModuleTask,
        how: str,
        before: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Gives both sides the weights of this task.

        Args:
            how: the way a user changes weights, one of `DROP_IN_WAYS`.
            before: the weights given last. Only weights that differ are written: a write of equal
                values would count as a change, and buffers keep what the calls made of them.
        """
        weights = task.state(self.cases.rules.device)
        if before is not None:
            weights = {n: v for n, v in weights.items() if not torch.equal(v, before[n])}
        sides.reference.load(weights)
        sides.session.set_weights(self.trial.name, sides.instance, weights, how)

    def _if_possible(self, what: str, step: Callable[[], int | None]) -> int | None:
        """Returns the result of the step; None where the candidate refuses, which `fixed` allows.

        Args:
            what: a name of the step, for messages.

        Raises:
            Rejected: the candidate refuses under `drop-in`, or the fault is no refusal.
        """
        try:
            with faults():
                return step()
        except Rejected as rejected:
            if self.trial.rules.is_drop_in or rejected.code not in REFUSALS:
                rejected.message += f" [{what}]"
                raise
            self.trial.advice.append(f"no {what}: {rejected.message}")
            return None

    def _call(
        self,
        sides: BothSides,
        what: str,
        task: Task | None = None,
        *,
        inputs: list[Any] | None = None,
        keeps_objects: bool = False,
    ) -> None:
        """Calls both sides once and checks the call.

        Args:
            what: a description of the call, for messages.
            task: has the weights that both sides have now; None stands for the base.
            inputs: None: new inputs are drawn.
            keeps_objects: the call gets the tensor objects of the call before.

        Raises:
            Rejected: the call is wrong. The message names the number of the call.
        """
        self.num_calls += 1
        dice = random.Random(derive(self.cases.seed, "life", "call", self.num_calls))
        case = Case(
            what,
            "plain",
            dice.getrandbits(31),
            poison(dice.getrandbits(31), is_nan=False),
            generator_seed(dice),
            self._manner(dice, keeps_objects=keeps_objects),
        )
        task, rules = task or self.cases.base, self.cases.rules
        inputs = self._inputs() if inputs is None else inputs
        before = sides.reference.module_now()
        with task.usage():
            answer = sides.reference.answer(inputs, case.generator)
        called = sides.session.call_on(
            self.trial.name,
            sides.instance,
            replace(Posed(case, inputs, answer).call(), is_held=True),
        )
        comparison = compare(called.ran.outputs, answer.outputs, rules.precision)
        try:
            self.has_state |= answer.has_state
            self.keeps_outputs |= bool(answer.held or answer.aliases)
            self.kept_bytes.append(called.ran.kept_bytes)
            posed = Posed(case, inputs, answer)
            start = self._start(task, before, posed)
            looks_again = start is not None
            self.trial.check(
                sides.session, start or task, posed, called, comparison, looks_again=looks_again
            )
        except Rejected as rejected:
            rejected.message += f" [call {self.num_calls} without a new start, {what}]"
            raise

    def _start(self, task: Task, before: torch.nn.Module | None, posed: Posed) -> Task | None:
        """Returns the task that starts from the state before a call; None if that state is lost.

        A second look at the outputs calls the reference again, and that call must begin in the same
        state.

        Args:
            before: a copy of the reference in this state, where there is one.
        """
        if not isinstance(task, ModuleTask):
            return task
        rules = self.cases.rules
        # A function that closes over parts of the module would still use the original's parts in a
        # copy.
        if before is not None and not closes_over_parts(before):
            return task.starting_from(before, rules.device)
        # Without a copy, the start of the task serves where it gives the same outputs.
        try:
            native = task.native_answer(posed.inputs, posed.case.generator, rules.device)
        except UsageError:
            return None
        comparison = compare(native, posed.answer.outputs, rules.precision)
        return task if comparison.mismatch is None else None

    def _manner(self, dice: random.Random, *, keeps_objects: bool) -> Manner:
        manner = manner_of(dice, dice.randrange(1, 5), dice.randrange(MAX_FIRST_TURN))
        return replace(manner, keeps_objects=keeps_objects)

    def _end(self, sides: BothSides) -> int:
        """Lets the kept outputs of earlier calls go, and drops the instance (0: there is none).
        Returns the number of calls whose outputs the candidate keeps."""
        guest, num_kept = sides.session.guest, 0
        if guest.alive:
            with faults():
                num_kept = guest.let_go()
                if sides.instance:
                    guest.drop(self.trial.name, sides.instance)
        return num_kept


def _is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
