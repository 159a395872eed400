"""Level-1 programs: one call each, over every operator the teacher can write, at model-like sizes.

The draws are simple, for measuring the judge. The generator `synth` draws uniformly instead.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from kernelwright.core.seed import derive
from kernelwright.ops.operator import REQUIRED, Domain, Operator, Param, ParameterKind, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.initial import choose_inits
from kernelwright.programs.program import Program, Ref
from kernelwright.teacher.writer import family

DTYPES = ("float32", "bfloat16")
MIN_LOG2, MAX_LOG2 = 16, 22
"""The number of elements of the largest tensor, as a power of two."""
TRIES = 120
"""Draws for one operator and dtype before it is left out."""
WIDTHS = (64, 128, 256)
"""The widths of a second matrix."""


def level1_programs(count: int, seed: int) -> list[Program]:
    """`count` programs that the teacher can write. Every operator and dtype has its turn, in drawn
    order, before any comes again."""
    rng = random.Random(derive(seed, "level 1"))
    kinds = [(operator, dtype) for operator in operators().values() for dtype in DTYPES]
    programs: list[Program] = []
    while len(programs) < count:
        rng.shuffle(kinds)
        for kind in list(kinds):
            program = _drawn(*kind, rng)
            # Left out for good: every further turn would spend all its tries in vain.
            if program is None:
                kinds.remove(kind)
                continue
            programs.append(program)
            if len(programs) == count:
                break
    return programs


def _drawn(operator: Operator, dtype: str, rng: random.Random) -> Program | None:
    """A program of one call. None if no draw of `TRIES` satisfies the operator's rules, the bounds
    of sizes and the teacher."""
    for _ in range(TRIES):
        drawing = _Drawing(operator, dtype, rng)
        try:
            program = drawing.program()
            sizes = [result_type.numel for result_type in drawing.builder.types.values()]
            fits = 1 << MIN_LOG2 <= max(sizes) <= 1 << MAX_LOG2
            if fits and family(program) is not None:
                return program
        except ValueError:  # the rules refuse these shapes or attributes
            continue
    return None


@dataclass(slots=True)
class _Drawing:
    """One draw of one call."""

    operator: Operator
    dtype: str
    rng: random.Random
    builder: Builder = field(default_factory=Builder)
    shape: tuple[int, ...] = ()
    """The shape of the first tensor."""
    width: int = 0
    """A further size, of matrices."""

    def program(self) -> Program:
        """Draw shape, arguments and initial values.

        Raises:
            ValueError: the operator's rules refuse the draw.
        """
        # Axes are powers of two whose exponents share out that of the number of elements.
        sizes = [0] * self.rng.choice((2, 2, 3, 3, 4, 5))
        for _ in range(self.rng.randint(MIN_LOG2, MAX_LOG2 - 1)):
            sizes[self.rng.randrange(len(sizes))] += 1
        self.shape = tuple(1 << size for size in sizes)
        self.width = self.rng.choice(WIDTHS)
        values = {param.name: self._value(param) for param in self.operator.params}
        arguments = {name: value for name, value in values.items() if value is not REQUIRED}
        program = self.builder.program(self.builder.call(self.operator.name, **arguments))
        num_inputs = len(program.inputs)
        return choose_inits(program, [""] * num_inputs, [None] * num_inputs)

    def _value(self, param: Param) -> Any:
        """A parameter's value; REQUIRED leaves it at its default."""
        rng = self.rng
        match param.kind:
            case ParameterKind.ATTRIBUTE:
                return self._attribute(param)
            case ParameterKind.OPTIONAL_TENSOR if rng.random() < 0.5:
                return REQUIRED
            case ParameterKind.TENSOR_OR_SCALAR if rng.random() < 0.3:
                return rng.choice((0.5, 2.0, 3.0))
            case ParameterKind.TENSORS:
                return (self._tensor(param), self._tensor(param))
            case ParameterKind.OPTIONAL_TENSORS:
                return (self._tensor(param),)
        return self._tensor(param)

    def _attribute(self, param: Param) -> Any:
        rng, rank = self.rng, len(self.shape)
        if param.domain and (param.default is REQUIRED or rng.random() < 0.5):
            return rng.choice(param.domain)
        if param.default is not REQUIRED:
            return REQUIRED
        if param.name in ("dim", "dim0", "dim1"):
            return rng.randrange(rank)
        return self.shape[-1:] if param.name == "normalized_shape" else REQUIRED

    def _tensor(self, param: Param) -> Ref:
        domain = self.operator.domains.get(param.name, Domain.ANY)
        dtype = {Domain.INDEX: "int64", Domain.BOOL: "bool"}.get(domain, self.dtype)
        if param.name in ("mask", "condition"):
            dtype = "bool"
        elif self.operator.name.startswith("bitwise"):
            dtype = "int32"
        is_first = param is self.operator.params[0]
        shape = self.shape if is_first else self.rng.choice(self._other_shapes())
        return self.builder.input(TensorType(shape, dtype))

    def _other_shapes(self) -> list[tuple[int, ...]]:
        """Shapes that a further tensor may have beside the first one."""
        shape, width = self.shape, self.width
        if self.operator.family == "normalization":
            return [shape[1:2], shape[-1:]]
        if self.operator.family == "matrix":
            batch, rows, columns = shape[:-2], shape[-2], shape[-1]
            pairs = [(columns, width), (width, columns), (rows, width)]
            return [(columns,), (width,), pairs[0], pairs[1], *((*batch, *pair) for pair in pairs)]
        return [shape, shape, shape[-1:], shape[:1], shape[:-1]]
