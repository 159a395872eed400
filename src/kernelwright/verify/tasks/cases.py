"""The cases of a task: the inputs of each call, and the surroundings of the call."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Precision
from kernelwright.programs.draws.families import FAMILIES
from kernelwright.programs.draws.positions import READERS
from kernelwright.programs.draws.structure import structures
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.sandbox.shared.manner import MAX_THREADS, WATCHED, Manner
from kernelwright.timing.stages import stage
from kernelwright.verify.judging import Rules
from kernelwright.verify.room import is_about_memory
from kernelwright.verify.tasks.alike import permuted, swapped, with_one_for_two, with_parts_of
from kernelwright.verify.tasks.answer import ReferenceAnswer
from kernelwright.verify.tasks.observed import ORDERS
from kernelwright.verify.tasks.task import Task

KEPT_BYTES = 1 << 30
"""A larger first case is posed again at each use: memory is scarcer than time."""
PART_CHANGED, PERMUTED, SWAPPED, SAME = "part changed", "permuted", "swapped", "same"
"""Cases from the first inputs: with a part of their values changed, with their values in another
order, with two inputs of one shape exchanged, with one tensor in the place of both."""
TELLING = ("spikes", "last_tile")
"""Families in which a kernel shows whose work does not matter in the first case."""
OTHER_WEIGHTS = "other weights"
"""The variant of a module in which its parameters have moved."""
REDRAWN_WEIGHTS = "redrawn weights"
"""The names of variants with other signs and magnitudes begin with this text."""
TINY_SCALE = 1 / 2
"""Under `tiny`, errors are shares of at least this scale: a tanh that is computed with exponentials
rounds near 1. Where one tensor takes the place of two, differences of products round likewise."""
CANCELLED = 0.1
"""An output whose size falls to less than this share has cancelled."""
MIN_CASES = 8
"""The least number of judged cases. Plain draws make up for cases in which the reference is not
defined."""
NUM_DOUBTS = 8
"""Further cases in which a silenced kernel may show that it matters."""
ADVISORY = frozenset({"extreme", "special"})
"""Families in which honest kernels differ from PyTorch: they overflow earlier, or drop NaN.
`Cases.is_advisory` says where these families decide."""
LOOKS_AT_SPECIAL = frozenset(
    {
        "isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "nan_to_num_", "nansum",
        "nanmean", "nanmedian", "nanquantile", "fmax", "fmin",
    }
)  # fmt: skip
"""Functions that test for NaN or infinity."""
KEEPS_SMALL = frozenset({"log1p", "expm1"})
"""Operators that exist for the digits of small values."""
REDUCES = (
    "sum", "mean", "var", "std", "norm", "softmax", "mm", "conv", "pool", "attention", "cum",
    "prod", "dist", "loss", "logsumexp", "dot", "linear", "bilinear", "fft",
)  # fmt: skip
"""Parts of the names of operators that reduce many values to one: their order of computation
decides which values overflow."""
MAX_ON_CPU = 1 << 22
"""The most input elements that the CPU tries first."""
SEEDS = (0, 1, 42, 1234, 67280421310721)
"""Seeds of generators as users set them; the last is PyTorch's default seed."""
TRACED = frozenset({0, 3})
"""Numbers of the cases in which memory is traced (`sandbox.guest.crossings`)."""
TURNED, MAX_FIRST_TURN = (1, 3, 5), 1000
"""The cases of ten in which a configuration of autotuners is forced (all are watched), and a bound
of the number of the first forced configuration."""
INFERRED = 4
"""The case of ten in inference mode. Earlier cases ran in other modes, so a tensor that a candidate
keeps was made there, and may be changed in any mode."""
MAX_AHEAD_S = 400 * 24 * 3600
"""The clocks of most calls are ahead by less than this."""
MAX_FAR_AHEAD_S = 20 * MAX_AHEAD_S
"""The clocks of a third of the calls are ahead by less than this."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call to judge: the variant and the inputs of the call, and its surroundings."""

    variant: str
    """"base", or the difference from the base: other shapes, weights, constants."""
    family: str
    seed: int
    """The seed of the inputs."""
    poison: float
    """The value that fresh memory holds: NaN, or a finite value that no kernel can know."""
    generator: int = 0
    """Seed of the random numbers that a call may draw."""
    manner: Manner = WATCHED

    @property
    def name(self) -> str:
        kind = "nan" if math.isnan(self.poison) else "finite"
        how = f"{kind} poison" if self.manner.is_watched else "as a user calls"
        how = "in inference mode" if self.manner.is_inference else how
        how = "inside torch.compile" if self.manner.compiles else how
        how += ", the interpreter's programs in another order" if self.manner.order_seed else ""
        return f"{self.variant}/{self.family}/seed {self.seed}/{how}"


@dataclass(frozen=True, slots=True)
class Posed:
    """A case with its inputs and the reference's answer."""

    case: Case
    inputs: list[Any]
    answer: ReferenceAnswer

    def call(self) -> GuestCall:
        """The call of a candidate that this case asks for."""
        return GuestCall(
            self.inputs,
            self.case.generator,
            self.case.poison,
            manner=self.case.manner,
            wanted_inputs=tuple(self.answer.inputs),
            like=self.answer.outputs.native,
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of inputs and answer."""
        inputs = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in inputs) + self.answer.num_bytes


@stage("pose")
def pose(task: Task, case: Case, rules: Rules) -> Posed:
    """Draws the inputs of a case and calls the reference on them.

    Raises:
        UsageError: the reference fails on these inputs.
    """
    return answered(task, case, task.inputs(case.seed, case.family, rules.device), rules)


def answered(task: Task, case: Case, inputs: list[Any], rules: Rules) -> Posed:
    """Returns the case with these inputs and the reference's answer, for the policy in force.

    Raises:
        UsageError: the reference fails on the inputs.
    """
    tf32 = rules.precision is Precision.TF32
    posed = Posed(case, inputs, task.expected(inputs, case.generator, rules.device, tf32=tf32))
    if rules.device.type == "cuda" and posed.num_bytes > KEPT_BYTES:
        torch.cuda.empty_cache()  # what fp64 took; the guest has an allocator of its own
    return posed


@dataclass(slots=True)
class Cases:
    """The cases of one task and its variants; "base" is the task itself."""

    variants: dict[str, Task]
    rules: Rules
    seed: int
    foreign: frozenset[str] = frozenset()
    """Variants at sizes or arguments that are not the task's own."""
    is_large: bool = field(default=False, init=False)
    """The first case has been posed, and is larger than KEPT_BYTES."""
    ignored: tuple[str, ...] | None = field(default=None, init=False)
    """Calls of the program that do not matter; None until `ignored_calls` computes them."""
    _first: Posed | None = field(default=None, init=False)
    _operators: frozenset[str] | None = field(default=None, init=False)

    @property
    def base(self) -> Task:
        return self.variants["base"]

    def all(self) -> Iterator[Case]:
        """Yields the plain case of every variant; then cases from the first inputs; then the other
        families of the base; then plain values of the base again. Each call yields the same
        cases."""
        kinds = [(variant, "plain") for variant in self.variants]
        kinds += [("base", PART_CHANGED), ("base", PERMUTED), ("base", SWAPPED)]
        kinds += [("base", family) for family in FAMILIES if family != "plain"]
        kinds += [("base", "plain")] * 2 + [("base", SAME)]
        # The number decides poison and surroundings, so each kind of case has its place in the
        # order.
        return (case_of(self.seed, i, *kind) for i, kind in enumerate(kinds))

    def plain(self) -> Iterator[Case]:
        """Yields the plain cases of the base."""
        return (case for case in self.all() if (case.variant, case.family) == ("base", "plain"))

    def further(self, num_judged: int) -> Iterator[Case]:
        """Yields plain draws in place of cases in which the reference is not defined, up to
        `MIN_CASES`."""
        for number in range(num_judged, MIN_CASES):
            # Numbers of `all` end far below 1000, so these cases have other seeds.
            yield case_of(self.seed, 1000 + number)

    def first(self) -> Posed:
        """Returns the base's plain case. A large case is posed again at each call (`KEPT_BYTES`).

        Raises:
            UsageError: the reference gives no numbers for its own inputs.
        """
        if self._first is not None:
            return self._first
        posed = pose(self.base, next(self.all()), self.rules)
        _check_tells(self.base, posed)
        self.is_large = posed.num_bytes > KEPT_BYTES
        if not self.is_large:  # a large one would take the room of the cases that follow
            self._first = posed
        return posed

    def first_inputs(self) -> list[Any]:
        """Draws the inputs of the base's plain case again."""
        return self.base.inputs(next(self.all()).seed, "plain", self.rules.device)

    @stage("pose")
    def pose_if_defined(self, case: Case) -> Posed | None:
        """Returns the posed case; None where a family or a variant leaves the domain of the
        reference.

        The reference then raises an exception, or no output has a finite element, natively or in
        float64. A case whose answer is decided by the order of equal values is None too.

        Raises:
            UsageError: the reference fails on plain inputs, or the machine has no room.
        """
        # The first case may be in memory already.
        if case == next(self.all()):
            return self.first()
        task = self.variants[case.variant]
        # On its own plain inputs the reference must not fail: such an error is the user's, and is
        # raised.
        if case.family == "plain" and case.variant == "base":
            posed = pose(task, case, self.rules)
            _check_tells(task, posed)
            return posed
        try:
            inputs = self._inputs(task, case)
            if not self.may_run(task, inputs, case.generator):
                return None
            posed = answered(task, case, inputs, self.rules)
        except UsageError as error:
            # Without room nothing is known about the domain, so the case must not be left out.
            if is_about_memory(error):
                raise
            return None
        if not posed.answer.is_finite:
            return None
        if case.family == SAME and self._is_unfair(posed):
            return None
        if self._ties_decide(task, posed):
            return None
        is_exact = bool(self._operators_of_base() & KEEPS_SMALL) or _rounds_nothing(posed.answer)
        return _allowing(posed, reduces=self._reduces(), is_exact=is_exact)

    def _is_unfair(self, posed: Posed) -> bool:
        """Whether one tensor for two inputs shows nothing of a candidate. The reference writes to
        inputs or returns one: it saw copies, which do not share memory as a user's tensors do. Or
        its sums cancel, and what is left is rounding."""
        now, first = (answer.outputs.oracle for answer in (posed.answer, self.first().answer))
        sizes = [(_rms(o), CANCELLED * _rms(f)) for o, f in zip(now, first, strict=True)]
        cancels = self._reduces() and any(size < least for size, least in sizes)
        return cancels or bool(posed.answer.inputs or posed.answer.aliases)

    def _ties_decide(self, task: Task, posed: Posed) -> bool:
        """Whether the reference returns indices of sorted values of which some are equal. PyTorch
        leaves the order of their indices open."""
        outputs = posed.answer.outputs.native
        if all(y.is_floating_point() or y.is_complex() for y in outputs):
            return False
        if not self._operators_of_base() & ORDERS:
            return False
        return task.has_ties(posed.inputs, posed.case.generator, self.rules.device)

    def _inputs(self, task: Task, case: Case) -> list[Any]:
        """The inputs of a case that is not the first.

        Raises:
            UsageError: the inputs cannot be drawn.
        """
        if case.family == SWAPPED:
            inputs = swapped(self.first_inputs())
            if inputs is None:
                raise UsageError("no two inputs can be exchanged")
            return inputs
        if case.family == SAME:
            return with_one_for_two(self.first_inputs())
        if case.family == PART_CHANGED:  # a result kept under a sample of its inputs is stale
            others = task.inputs(case.seed, "plain", self.rules.device)
            return with_parts_of(self.first_inputs(), others, case.seed)
        if case.family == PERMUTED:
            return self._permuted(case)
        return task.inputs(case.seed, case.family, self.rules.device)

    def may_run(self, task: Task, inputs: list[Any], seed: int) -> bool:
        """Whether the reference cannot end the CUDA context on these inputs. The CPU tries the
        inputs of operators that read positions first: there an index out of range is an
        exception."""
        if self.rules.device.type == "cpu":
            return True
        names = self._operators_of_base()
        if not any(part in name for name in names for part in READERS):
            return True
        # Inputs that the CPU cannot try in time are not risked.
        if not fits_cpu(inputs):
            return False
        on_cpu = [value.cpu() if isinstance(value, torch.Tensor) else value for value in inputs]
        try:
            task.native_answer(on_cpu, seed, torch.device("cpu"))
        except UsageError:
            return False
        return True

    def _permuted(self, case: Case) -> list[Any]:
        """Returns the first inputs with their values in another order; inputs with a structure
        stay."""
        firsts = self.first_inputs()
        others = self.base.inputs(case.seed, "plain", self.rules.device)
        pairs = zip(firsts, structures(firsts, others), strict=True)
        return [
            value if structure is not None else permuted(value, case.seed)
            for value, structure in pairs
        ]

    # -- consequences of a case

    def is_advisory(self, case: Case) -> bool:
        """Whether an error in this case becomes advice and does not decide."""
        if self.rules.is_drop_in or case.family not in ADVISORY:
            return False
        if case.family == "special":
            return not self._operators_of_base() & LOOKS_AT_SPECIAL
        return self._reduces()

    def _reduces(self) -> bool:
        """Whether the reference makes one value of many. Another order of computation may then
        overflow."""
        return any(part in name for name in self._operators_of_base() for part in REDUCES)

    def may_refuse(self, case: Case) -> bool:
        """Whether a candidate may raise an exception in this case. It may not return wrong
        values."""
        return case.variant in self.foreign and not self.rules.is_drop_in

    def _operators_of_base(self) -> frozenset[str]:
        if self._operators is None:
            inputs, device = self.first_inputs(), self.rules.device
            self._operators = self.base.operators(inputs, 0, device)
        return self._operators

    def telling(self) -> Iterator[Case]:
        """Yields the cases in which outputs must be wrong without the candidate's kernels.

        The first case comes first. The others show kernels that the first case does not need: a
        kernel that packs weights, a kernel for outliers. In `pure` mode all other variants count
        too: at another shape a loss shows that a long product hides. In `hybrid` mode a candidate
        could compute there with PyTorch.
        """
        first, *others = self.all()
        yield first
        is_pure = self.rules.mode == "pure"
        for case in others:
            is_shape = case.variant != "base" and case.family == "plain" and is_pure
            is_weights = case.variant.startswith((OTHER_WEIGHTS, REDRAWN_WEIGHTS))
            if case.family in TELLING or is_weights or is_shape:
                yield replace(case, manner=WATCHED)

    def doubts(self) -> Iterator[Case]:
        """Yields further plain draws, before a kernel is called a decoy: an index among two values
        is correct by chance in every second case."""
        for number in range(NUM_DOUBTS):
            yield replace(case_of(self.seed, 2000 + number), manner=WATCHED)


def fits_cpu(inputs: list[Any]) -> bool:
    """Whether the CPU may try these inputs first."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() for tensor in tensors) <= MAX_ON_CPU


def _rms(output: torch.Tensor) -> float:
    """Returns the rms of the finite elements."""
    values = torch.view_as_real(output) if output.is_complex() else output
    return float(values.double().nan_to_num(0, 0, 0).square().mean().sqrt())


def _rounds_nothing(answer: ReferenceAnswer) -> bool:
    """Whether the reference's own outputs equal those of float64."""
    outputs = answer.outputs
    return all(torch.equal(y.to(o), o) for y, o in zip(outputs.native, outputs.oracle, strict=True))


def _allowing(posed: Posed, *, reduces: bool, is_exact: bool) -> Posed:
    """Returns the case with the errors that its family excuses, in outputs, state and changed
    inputs.

    Args:
        reduces: the reference makes one value of many, and the order of a sum decides what
            overflows.
        is_exact: small values have all their digits, and errors of `tiny` count in full.
    """
    family, answer = posed.case.family, posed.answer
    if family == "plain":
        return posed
    # Where the reference itself overflows, another order of a sum may overflow elsewhere.
    overflows = not all(bool(y.isfinite().all()) for y in answer.outputs.native)
    excuses: dict[str, Any] = {
        # The family "special" asks where NaN appears, so its NaN must be right.
        "is_nan_free": family != "special",
        "is_range_free": (family == "extreme" and reduces) or (family == "large" and overflows),
        "is_overflow_free": family in ("extreme", "large"),
        "least_scale": TINY_SCALE if family == SAME or (family == "tiny" and not is_exact) else 0.0,
    }
    return replace(
        posed,
        answer=replace(
            answer,
            outputs=replace(answer.outputs, **excuses),
            state={name: replace(value, **excuses) for name, value in answer.state.items()},
            inputs={i: replace(value, **excuses) for i, value in answer.inputs.items()},
        ),
    )


def _check_tells(task: Task, posed: Posed) -> None:
    """Raises `UsageError` where no output is finite: NaN would accept any kernel."""
    if not posed.answer.is_finite:
        raise UsageError(
            f"the reference {task.name} gives no finite number for its own inputs",
            remedy="see that its weights and inputs are finite: NaN hides what a kernel does",
        )


def case_of(seed: int, number: int, variant: str = "base", family: str = "plain") -> Case:
    """Returns the case of this number, the same at each call. The poison is NaN and a finite value
    in turn, so that each unwritten element shows."""
    case_seed = derive(seed, "case", number) % (1 << 31)
    filler = poison(case_seed, is_nan=number % 2 == 0)
    dice = random.Random(derive(seed, "manner", number))
    # The first turn is one for all cases of a seed, so the cases go through configurations in
    # order.
    manner = manner_of(dice, number, derive(seed, "turns") % MAX_FIRST_TURN)
    manner = replace(manner, is_same=family == SAME)
    return Case(variant, family, case_seed, filler, generator_seed(dice), manner)


def generator_seed(dice: random.Random) -> int:
    """Draws a seed as users choose it: PyTorch's default, a small number, or any number."""
    return dice.choice([*SEEDS, dice.getrandbits(31), dice.getrandbits(dice.randint(1, 60))])


def manner_of(dice: random.Random, number: int, first_turn: int) -> Manner:
    """Draws the surroundings of a case.

    The first case is watched; two of five others run as a user calls. One in ten runs in
    inference mode. In three of ten, autotuners use the next of their configurations, from
    `first_turn`.

    Args:
        number: number of the case.
    """
    in_ten = number % 10
    return Manner(
        is_watched=number == 0 or number % 5 not in (2, 4),
        # Three cases of ten are forced, so the next ten go on three configurations later.
        turn=first_turn + 3 * (number // 10) + TURNED.index(in_ten) if in_ten in TURNED else None,
        has_grad=dice.random() < 0.5,
        is_inference=in_ten == INFERRED,
        num_threads=dice.randint(1, MAX_THREADS),
        has_offsets=dice.random() < 0.5,
        # A candidate may behave well until some day: most clocks are ahead.
        clock_s=dice.choice([0, dice.randrange(MAX_AHEAD_S), dice.randrange(MAX_FAR_AHEAD_S)]),
        traces_memory=number in TRACED,
        # The first case has the usual order, so that a race shows as a difference of orders.
        order_seed=dice.getrandbits(31) if number and dice.random() < 0.5 else 0,
    )


def poison(seed: int, *, is_nan: bool) -> float:
    """Returns NaN, or a finite value of a size that shows in any sum."""
    return math.nan if is_nan else random.Random(seed).uniform(100.0, 1000.0)


def fillers(seed: int) -> tuple[float, float, float]:
    """Returns the numbers that fill memory while a kernel is silenced, in a case with this seed.
    One number may be right by chance; odd and even numbers and zero give both booleans."""
    filler = poison(seed + 1, is_nan=False)
    return filler, filler + 1, 0.0
