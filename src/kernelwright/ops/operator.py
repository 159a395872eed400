"""The operator record: every fact about one operator, once.

The lowering, the shape rules, the program sampler, the teacher and the reports read these records;
none keeps a list of its own. Families register theirs in `ops/<family>.py`; `ops.registry` holds
the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod
from typing import Any

from kernelwright.ops.traits import ProductFactor, Trait

DTYPE_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Dtypes that operators compute with -> bytes an element."""
EXTERN_DTYPE_BYTES = {
    "complex32": 4, "complex64": 8, "complex128": 16, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}  # fmt: skip
"""Dtypes of values inside a program that extern calls alone make and read."""
ALL_DTYPE_BYTES = DTYPE_BYTES | EXTERN_DTYPE_BYTES


class Layout(StrEnum):
    """Order of a dense tensor's dimensions in memory."""

    CONTIGUOUS = "contiguous"
    CHANNELS_LAST = "channels_last"
    """(N, C, *spatial) stored as (N, *spatial, C); rank 4 and 5 only."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, dtype and memory layout of a dense tensor."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: Layout = Layout.CONTIGUOUS

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements; 1 for rank 0."""
        return prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.numel * ALL_DTYPE_BYTES[self.dtype]


class ParameterKind(StrEnum):
    """The kind of value that a parameter of an operator holds."""

    TENSOR = "tensor"
    TENSOR_OR_SCALAR = "tensor_or_scalar"
    """A number may stand in for the tensor: torch.add(x, 2.0)."""
    OPTIONAL_TENSOR = "optional_tensor"
    TENSORS = "tensors"
    """A sequence of one or more tensors: torch.cat."""
    OPTIONAL_TENSORS = "optional_tensors"
    """A sequence of tensors and None, at least one tensor: the indices of x[:, i]."""
    ATTRIBUTE = "attribute"
    """A compile-time value: int, float, bool, str, None or a tuple of ints."""

    @property
    def is_sequence(self) -> bool:
        """Whether the parameter holds a tuple of tensors."""
        return self in (ParameterKind.TENSORS, ParameterKind.OPTIONAL_TENSORS)


REQUIRED: Any = object()
"""Default of a parameter that has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Param:
    """One parameter of an operator."""

    name: str
    """The keyword of the PyTorch callable."""
    kind: ParameterKind
    default: Any = REQUIRED
    domain: tuple[Any, ...] = ()
    """Values a sampler may draw for an attribute; empty where shapes decide."""


class Domain(StrEnum):
    """Values a tensor argument must be drawn from, for defined and finite results."""

    ANY = "any"
    POSITIVE = "positive"
    """Bounded away from 0: log, sqrt, rsqrt, pow with a fractional exponent."""
    NONZERO = "nonzero"
    UNIT = "unit"
    """In (0, 1): probabilities."""
    LOG_PROB = "log_prob"
    """Log-probabilities: kl_div's first argument."""
    INDEX = "index"
    """Integers into a dimension; the bound comes from the operator's `index_bound`. A
    floating-point tensor in their place holds probabilities."""
    SIGN = "sign"
    """-1 or +1: hinge targets."""
    BOOL = "bool"


class Numerics(StrEnum):
    """How rounding enters; the judge and the teacher choose precision by it."""

    EXACT = "exact"
    """Moves or selects values: bit-equal or wrong."""
    POINTWISE = "pointwise"
    """A few ulp an element."""
    REDUCTION = "reduction"
    """Grows with the reduced length; order of summation is free."""
    CONTRACTION = "contraction"
    """Dot products: tensor-core modes apply."""
    RANDOM = "random"
    """Draws from the device's generator."""


Bound = Mapping[str, Any]
"""A call's parameters by name: TensorType, tuple of TensorType, number, None or attribute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """The record of one operator: how it is called, what it returns, and facts about its calls."""

    name: str
    """Unique; the key in records, plans and reports: "softmax"."""
    family: str
    """The file it lives in: "pointwise", "reduction", "normalization" ..."""
    call: str
    """The PyTorch callable as canonical text prints it: "torch.softmax", "F.linear"."""
    params: tuple[Param, ...]
    """In call order. Leading tensor parameters print positionally, the rest by keyword."""
    types: Callable[[Bound], tuple[TensorType, ...]]
    """Shape rule: output types. Raises ValueError, saying why, on inputs the operator refuses."""
    flops: Callable[[Bound, tuple[TensorType, ...]], int]
    """Floating-point operations; one an element for any pointwise function."""
    numerics: Numerics
    aten: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """ATen overloads that lower to it -> {ATen argument: our parameter}, only where names differ.
    An empty parameter name drops the argument."""
    domains: Mapping[str, Domain] = field(default_factory=dict)
    """Tensor parameter -> domain, where it is not ANY."""
    domains_apply: Callable[[Bound], bool] | None = None
    """Whether a call needs the domains, where not every call does: x ** 2 takes any x."""
    index_bound: Callable[[Bound], int] | None = None
    """For Domain.INDEX parameters: exclusive upper bound of the values."""
    num_outputs: int = 1
    jumps: Callable[[Bound], bool] | None = None
    """Whether a call's floats jump where its operands hardly move, as round's do; None: never.
    Integers and booleans made of floats always jump, and need no rule."""
    commutes: tuple[str, ...] = ()
    """Operands that may change places; where one is scaled by `alpha`, at alpha 1 only."""
    traits: frozenset[Trait] = frozenset()
    factors: tuple[ProductFactor, ...] = ()
    """The two factors of a product of matrices or vectors, left and right."""
    channel_dim: int | None = None
    """The dimension of the result of a layer with a weight and a bias that the bias lies along. -1
    stands for the last. None: the operator is no such layer."""
    spatial: int = 0
    """The number of dimensions that windows of a convolution or a pool slide along."""
    normalized_axes: Callable[[Bound], frozenset[int] | None] | None = None
    """The axes of a group of elements. Adding a constant to a group does not change the first
    result. None: the call takes statistics that it is given, and takes no shift back."""
    neutral: float | None = None
    """The number that changes nothing as the second operand: 0 of a sum."""
    unchanged: tuple[float | str, float | str] | None = None
    """(lowest, highest): inputs between these are returned as they are. A text is the name of the
    attribute that holds the limit, where None stands for no limit."""
    canonical: Callable[[str, Mapping[str, Any]], dict[str, Any]] | None = None
    """(ATen overload or "", given parameter values) -> the values in their one spelling: full
    tuples for sizes, explicit pool strides, names for ATen's reduction codes. Idempotent."""

    def having(self, *traits: Trait, **facts: Any) -> "Operator":
        """A copy of the record with these traits added, and with these fields replaced."""
        return replace(self, traits=self.traits | frozenset(traits), **facts)

    def bytes_moved(self, bound: Bound, outputs: tuple[TensorType, ...]) -> int:
        """Bytes that a call moves if it reads every input once and writes every output once.

        Args:
            bound: the call's parameters, types in place of tensors.
            outputs: types of the results.
        """
        total = sum(t.num_bytes for t in outputs)
        for value in bound.values():
            tensors = value if isinstance(value, tuple) else (value,)
            total += sum(t.num_bytes for t in tensors if isinstance(t, TensorType))
        return total

    def domain(self, name: str, bound: Bound) -> Domain:
        """The domain of values for the tensor, or the tensors, of a call's parameter `name`."""
        if self.domains_apply is not None and not self.domains_apply(bound):
            return Domain.ANY
        domain, value = self.domains.get(name, Domain.ANY), bound[name]
        is_float = isinstance(value, TensorType) and "float" in value.dtype
        return Domain.UNIT if domain is Domain.INDEX and is_float else domain

    @property
    def reads_tensors(self) -> bool:
        """Whether some parameter takes a tensor. If none does, a call names no device."""
        return any(param.kind is not ParameterKind.ATTRIBUTE for param in self.params)

    def param(self, name: str) -> Param:
        """The parameter of this name.

        Raises:
            StopIteration: the operator has no such parameter.
        """
        return next(p for p in self.params if p.name == name)
