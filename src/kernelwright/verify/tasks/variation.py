"""Variants of a task that its author did not state and its reference accepts.

Two draws of the same inputs show what the author never varies: lengths, masks, labels, numbers.
A kernel may contain these as constants, and also the sizes and the arguments of the constructor.
The reference answers each variant in finite numbers.

The reference runs on the CPU here: there an index out of range is an exception. On a GPU such an
index ends the CUDA context.
"""

import ast
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.draws.structure import Structure, structures
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.cases import OTHER_WEIGHTS, REDRAWN_WEIGHTS
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import CPU, FunctionTask, Task
from kernelwright.verify.tasks.varied_arguments import other_arguments
from kernelwright.verify.tasks.varied_sizes import Resized, other_sizes
from kernelwright.verify.tasks.weights import num_draws

MAX_ELEMENTS = {"constants": 1 << 25, "integers": 1 << 25, "sizes": 1 << 22, "arguments": 1 << 22}
"""The most elements of inputs and parameters. A larger task has no variants of this kind."""
MAX_ACCEPTED = {"constants": 3, "integers": 8, "sizes": 10, "arguments": 10}
"""The most variants of each kind."""
MAX_TRIES = 24
"""The most variants of each kind that the reference is tried on."""
NUM_DRAWS = 2
"""Draws of inputs that the reference must accept in a variant."""
BEYOND = (1 << 31) + 5
"""An integer of more than 32 bits. In a type of 32 bits, the largest number takes its place."""
UNUSUAL = (-100, -1, 0, BEYOND, (1 << 24) + 1)
"""Integers with a meaning in some references: an ignored label, the last position, padding,
identifiers beyond 32 bits and beyond what float32 tells apart."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
UNUSUAL_SHARE = 1 / 8
"""The share of an input's elements that becomes an unusual integer."""

SCALES = (4.0, -4.0, 0.3)
"""Factors of vectors and scalars in redrawn weights, one for each draw. The second draw is the
first with the other signs: a single number is large in one of both, and below zero in the other."""

COUNT_FROM_THE_END = frozenset({"index", "index_put", "index_put_", "take", "put_"})
"""ATen operators for which -1 is the last position."""


Varied = FunctionTask | ModuleTask | ProgramTask


@dataclass(frozen=True, slots=True)
class Variation:
    """A variant of a task."""

    name: str
    task: Task
    is_foreign: bool
    """Sizes, numbers or constructor arguments are not the task's own. Under `fixed` a candidate may
    refuse the variant."""


def other_weights(task: ModuleTask, device: torch.device, seed: int) -> dict[str, ModuleTask]:
    """Returns the task with weights moved by up to 10%, and with redrawn signs and magnitudes, by
    name.

    A module with a small parameter gets several redrawn sets. Signs stay where the reference is not
    finite otherwise.
    """
    variants = {OTHER_WEIGHTS: task.with_other_weights(derive(seed, "weights"))}
    inputs = task.draw(derive(seed, "weights", "inputs") >> 1, device)
    scales = SCALES[: num_draws(task.module(device))]
    for number, scale in enumerate(scales):
        for keeps_signs in (False, True):
            # Two draws share their values for the sake of their scales, which kept signs exclude.
            own = derive(seed, "redrawn", number if keeps_signs else number // 2)
            other = task.with_redrawn_weights(own, keeps_signs=keeps_signs, scale=scale)
            if _is_finite(other, inputs, device):
                variants[f"{REDRAWN_WEIGHTS} {number}"] = other
                break
    return variants


def _is_finite(task: Task, inputs: list[Any], device: torch.device) -> bool:
    """Whether the reference answers these inputs, and every element of the outputs is finite."""
    try:
        outputs = task.native_answer(inputs, 0, device)
    except UsageError:
        return False
    return all(bool(output.isfinite().all()) for output in outputs)


def variations(task: Task, rules: Rules, seed: int) -> list[Variation]:
    """Returns variants of a task with other constants, integers, sizes and arguments that the
    reference accepts, as far as the task's size permits (`MAX_ELEMENTS`).
    `program_task.at_other_shapes` varies the sizes of a program."""
    if not isinstance(task, Varied):
        return []
    device = rules.device
    first = task.draw(derive(seed, "variation", 1) >> 1, device)
    num_elements = _num_elements(first) + _num_parameters(task, device)
    # No kind of variant is left then, so the second draw is saved.
    if num_elements > max(MAX_ELEMENTS.values()):
        return []
    second = task.draw(derive(seed, "variation", 2) >> 1, device)
    kept = structures(first, second)
    dice = random.Random(derive(seed, "variation"))
    trials = {
        "constants": _other_constants(task, first, second, dice),
        "integers": chain(
            _one_sided_masks(task, first, kept),
            _unusual_integers(task, first, kept, dice, has_negative=_may_be_negative(task, rules)),
        ),
        "sizes": (
            [Variation(name, other, True) for name, other in ways]
            for ways in _with_other_sizes(task, first, kept, dice, is_drop_in=rules.is_drop_in)
        ),
        "arguments": (
            [Variation(name, other, True)] for name, other in _with_other_arguments(task)
        ),
    }
    # The variants are generators: the reference runs only until enough variants are accepted.
    accepted: dict[str, Variation] = {}
    for kind, tried in trials.items():
        if num_elements > MAX_ELEMENTS[kind]:
            continue
        good = (_first_good(among, seed, rules) for among in islice(tried, MAX_TRIES))
        chosen = islice(_distinct(filter(None, good)), MAX_ACCEPTED[kind])
        accepted |= {variant.name: variant for variant in chosen}
    return [*accepted.values()]


def _distinct(variants: Iterable[Variation]) -> Iterator[Variation]:
    """Yields the variants without those whose name has come before."""
    names: set[str] = set()
    for variant in variants:
        if variant.name not in names:
            names.add(variant.name)
            yield variant


def _with_other_sizes(
    task: Varied,
    first: list[Any],
    kept: list[Structure | None],
    dice: random.Random,
    *,
    is_drop_in: bool,
) -> Iterator[list[Resized]]:
    if isinstance(task, ProgramTask):
        return iter(())
    return other_sizes(task, first, kept, dice, is_drop_in=is_drop_in)


def _with_other_arguments(task: Varied) -> Iterator[tuple[str, ModuleTask]]:
    return other_arguments(task) if isinstance(task, ModuleTask) else iter(())


def _first_good(alternatives: Iterable[Variation], seed: int, rules: Rules) -> Variation | None:
    """Returns the first variant that the reference accepts; None if there is none."""
    return next((variant for variant in alternatives if _accepts(variant.task, seed, rules)), None)


def _accepts(task: Task, seed: int, rules: Rules) -> bool:
    """Whether the reference accepts several draws on the CPU, returns no NaN, and draws no random
    numbers. Under `fixed` no position may wrap round."""
    try:
        for number in range(NUM_DRAWS):
            inputs = task.inputs(derive(seed, "accepted", number) >> 1, "plain", CPU)
            # The first draw suffices: the operators that draw do not depend on the inputs.
            if not number and task.is_random(inputs, CPU):
                return False
            with _Wrapping() as wrapping:
                outputs = task.native_answer(inputs, 0, CPU)
            if wrapping.is_seen and not rules.is_drop_in:
                return False
            if any(bool(y.isnan().any()) or not _is_some(y) for y in outputs):
                return False
    except UsageError:
        return False
    return True


class _Wrapping(TorchFunctionMode):
    """Notes positions that `take_along_dim` takes modulo the size. PyTorch does not document this,
    and few kernels do it; other operators refuse such positions."""

    def __init__(self) -> None:
        super().__init__()
        self.is_seen = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.take_along_dim, torch.Tensor.take_along_dim):
            self._look(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _look(
        self, input: torch.Tensor, indices: torch.Tensor, dim: int | None = None, **_: Any
    ) -> None:
        size = input.numel() if dim is None else input.shape[dim]
        self.is_seen |= bool(((indices < 0) | (indices >= size)).any())


def _is_some(output: torch.Tensor) -> bool:
    """Whether some element is finite; True for an output without elements."""
    return not output.numel() or bool(output.isfinite().any())


def _num_elements(inputs: Iterable[Any]) -> int:
    return sum(value.numel() for value in inputs if isinstance(value, torch.Tensor))


def _num_parameters(task: Varied, device: torch.device) -> int:
    if not isinstance(task, ModuleTask):
        return 0
    return sum(tensor.numel() for tensor in task.state(device).values())


# -- inputs that are equal in every draw


def _other_constants(
    task: Varied, first: list[Any], second: list[Any], dice: random.Random
) -> Iterator[list[Variation]]:
    """Yields variants in which constant inputs change: all constant tensors at once, several times;
    the same for numbers, which a candidate may refuse; then each input alone."""
    constant = [i for i, pair in enumerate(zip(first, second, strict=True)) if _is_same(*pair)]
    tensors = tuple(i for i in constant if isinstance(first[i], torch.Tensor))
    numbers = tuple(i for i in constant if i not in tensors)
    together = [group for group in (tensors, numbers) if group]
    # Tensors and numbers are apart: under `fixed` a refusal of other numbers must not excuse masks.
    groups = together * 2 + [(i,) for i in constant for _ in range(4)]
    for number, group in enumerate(groups):
        salt = dice.getrandbits(60)

        # Defaults keep the values of this turn: a closure would see those of the last turn.
        def change(
            inputs: list[Any],
            seed: int,
            *,
            group: tuple[int, ...] = group,
            salt: int = salt,
            is_whole: bool = len(together) <= number < 2 * len(together),
        ) -> list[Any]:
            own = random.Random(derive(salt, seed))
            return [
                _other(v, own, is_whole=is_whole) if i in group else v for i, v in enumerate(inputs)
            ]

        names = ", ".join(f"input {i}" for i in group)
        are_numbers = group[0] in numbers
        other = task.with_inputs(change)
        yield [Variation(f"other constants {number} ({names})", other, are_numbers)]


def _is_same(left: Any, right: Any) -> bool:
    """Whether an input is equal in two draws. Only tensors and numbers count."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.shape == right.shape and torch.equal(left, right)
    is_number = isinstance(left, bool | int | float)
    return type(left) is type(right) and bool(left == right) and is_number


def _other(value: Any, dice: random.Random, *, is_whole: bool = False) -> Any:
    """Returns another value of the same kind; a value without another stays.

    Args:
        is_whole: an integer takes the place of a float, as a user may write it.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice([value + 1, max(value - 1, 0), 2 * value + 1, 0, -value])
    if isinstance(value, float):
        if is_whole and math.isfinite(value):
            return round(value) + dice.randint(2, 4)
        return dice.choice([1.5 * value + 0.25, -value - 0.1, 0.0, 0.5 * value])
    if isinstance(value, torch.Tensor) and value.numel():
        return _other_tensor(value, torch.Generator().manual_seed(dice.getrandbits(60)))
    return value


def _other_tensor(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Returns another tensor of the same kind.

    Some booleans are flipped. Integers are drawn from their range; sorted integers stay sorted, and
    a permutation becomes another permutation. Masks of floats get another order; other floats are
    multiplied by 0.5 to 2.
    """
    flat = value.flatten().cpu()
    if value.dtype is torch.bool:
        other = flat ^ (torch.rand(flat.shape, generator=generator) < 0.3)
    elif value.is_floating_point():
        order = torch.randperm(flat.numel(), generator=generator)
        # Scaled values would not be a mask any more.
        is_mask = torch.unique(flat).numel() <= 2 or not bool(flat.isfinite().all())
        factor = 0.5 + 1.5 * torch.rand(flat.shape, generator=generator)
        other = flat[order] if is_mask else flat * factor.to(flat.dtype)
    elif value.is_complex():
        return value.conj().clone()
    else:
        other = _other_integers(flat, generator)
    return torch.empty_like(value).copy_(other.view(value.shape))


def _other_integers(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draws other integers from the range of the old ones, on the CPU. Sorted integers keep their
    ends, as offsets do."""
    # PyTorch has hardly any operators for these types.
    if flat.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return flat
    low, high = int(flat.min()), int(flat.max())
    is_sorted = flat.numel() > 2 and bool((flat[1:] >= flat[:-1]).all())
    positions = torch.arange(low, low + flat.numel()).to(flat)
    if flat.numel() > 2 and flat.sort().values.equal(positions):
        if is_sorted:
            return flat  # positions: in another order they state another task
        return flat[torch.randperm(flat.numel(), generator=generator)]
    # Equal integers span no range, so the range begins at 1.
    low = min(low, 1) if low == high and low > 0 else low
    drawn = torch.randint(low, high + 1, flat.shape, generator=generator)
    if is_sorted:  # offsets: the ends stay
        drawn = drawn.sort().values
        drawn[0], drawn[-1] = int(flat[0]), int(flat[-1])
    return drawn.to(flat.dtype)


def _unusual_integers(
    task: Varied,
    first: list[Any],
    kept: list[Structure | None],
    dice: random.Random,
    *,
    has_negative: bool,
) -> Iterator[list[Variation]]:
    """Yields variants in which some elements of an integer input become one of `UNUSUAL`; inputs
    take turns. Inputs with a structure stay: offsets, sorted positions, permutations."""
    numbers = {
        i: _unusual_for(task, value, has_negative=has_negative)
        for i, value in enumerate(first)
        if isinstance(value, torch.Tensor) and value.dtype in INTEGERS and value.numel()
        if kept[i] is None
    }
    for turn in range(max(map(len, numbers.values()), default=0)):
        for i, number in ((i, own[turn]) for i, own in numbers.items() if turn < len(own)):
            salt = dice.getrandbits(60)

            def change(
                inputs: list[Any], seed: int, *, at: int = i, number: int = number, salt: int = salt
            ) -> list[Any]:
                generator = torch.Generator().manual_seed(derive(salt, seed) >> 1)
                value = inputs[at]
                chosen = torch.rand(value.shape, generator=generator) < UNUSUAL_SHARE
                if chosen.ndim:  # a small input may have no chosen element otherwise
                    chosen.view(-1)[-1] = True
                other = value.masked_fill(chosen.to(value.device), number)
                return [other if j == at else v for j, v in enumerate(inputs)]

            yield [Variation(f"{number} in input {i}", task.with_inputs(change), False)]


def _unusual_for(task: Varied, value: torch.Tensor, *, has_negative: bool) -> list[int]:
    """Returns integers that this input should be tried with, as far as its type holds them: those
    with a meaning, the task's own, and numbers beyond the largest."""
    high, limits = int(value.max()), torch.iinfo(value.dtype)
    # Bytes often mark an ignored label by their largest value, wider types by -1.
    own = [limits.max if limits.max < 256 else -1, high + 1, 2 * high + 1]
    if isinstance(task, ModuleTask) and task.get_arguments is not None:
        args, kwargs = task.get_arguments()
        # `bool` is a subclass of int, but a flag is no label.
        own += [number for number in (*args, *kwargs.values()) if type(number) is int]
    own += _literals(task.text)
    # Sums of such numbers need a wider type than the input's.
    usual = [limits.max if n == BEYOND and limits.bits == 32 else n for n in UNUSUAL]
    numbers = [n for n in dict.fromkeys((*usual, *own)) if limits.min <= n <= limits.max]
    return [n for n in numbers if n >= 0 or has_negative]


def _literals(source: str) -> list[int]:
    """Returns integers that the task's file compares with, or passes by keyword, such as an ignored
    label."""
    nodes = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword | ast.Compare)
    ]
    inner = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Constant))
    return list(dict.fromkeys(part.value for part in inner if type(part.value) is int))


def _one_sided_masks(
    task: Varied, first: list[Any], kept: list[Structure | None]
) -> Iterator[list[Variation]]:
    """Yields variants of masks in which some rows hold no True, and some hold nothing else. A row
    with a single True in every draw is a choice, and stays."""
    for i, (value, structure) in enumerate(zip(first, kept, strict=True)):
        if not isinstance(value, torch.Tensor) or not value.ndim or not _is_mask(value):
            continue
        if structure is not None and structure.has_unit_sums:
            continue

        def change(inputs: list[Any], seed: int, *, at: int = i) -> list[Any]:
            mask = inputs[at].clone()
            if mask.ndim == 1:
                # A mask of one dimension is a single row: empty in some draws, full in others.
                mask.fill_(bool(seed % 2))
            else:
                # Of a mask that is not contiguous, slices along the first dimension take the place
                # of rows.
                rows = mask.view(-1, mask.shape[-1]) if mask.is_contiguous() else mask
                rows[::3], rows[1::3] = 0, 1
            return [mask if j == at else v for j, v in enumerate(inputs)]

        yield [Variation(f"empty and full rows in input {i}", task.with_inputs(change), False)]


def _is_mask(value: torch.Tensor) -> bool:
    """Whether a tensor holds booleans, or zeros and ones with at least one zero."""
    if value.dtype is torch.bool:
        return True
    if value.is_complex() or not value.numel():
        return False
    return bool(((value == 0) | (value == 1)).all()) and bool((value == 0).any())


def _may_be_negative(task: Task, rules: Rules) -> bool:
    """Whether negative integers are tried. Under `fixed` they are not tried where PyTorch counts
    negative positions from the end: few kernels do so."""
    inputs = task.draw(0, CPU)
    try:
        operators = task.operators(inputs, 0, CPU)
    except UsageError:
        return False
    return rules.is_drop_in or not operators & COUNT_FROM_THE_END
