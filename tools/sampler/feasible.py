"""Whether a system has a solution at all: OR-tools' CP-SAT decides where sampling finds none.

A constraint solver returns the solution its search meets first, whatever its seed. It decides, and
does not sample.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

from kernelwright.core.errors import UsageError
from kernelwright.ops.sizes import evaluate
from kernelwright.synth.sizes.equations import Contradiction
from kernelwright.synth.sizes.span import IntegerSpan
from kernelwright.synth.sizes.system import Parts, System

_EFFORT = 5.0
"""In CP-SAT's deterministic time, about seconds: the same answer on every machine."""
_LARGEST = 1 << 60
"""The largest number that the solver is given, since it computes in 64 bits."""


class _TooLarge(Exception):
    """An expression that may leave the solver's 64 bits."""


def decide(asked: System, *, seed: int = 0) -> tuple[int, ...] | None:
    """Values of the roots that are a solution; None if the solver cannot decide.

    Raises:
        Contradiction: the solver proves that there is no solution.
        UsageError: OR-tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise UsageError(
            "deciding whether sizes exist needs OR-tools",
            remedy="pip install 'ortools>=9.14'",
        ) from error
    model = cp_model.CpModel()
    try:
        roots = _state(asked, model)
    except _TooLarge:
        return None
    solver = cp_model.CpSolver()
    # One worker, and deterministic time in place of seconds: parallel or timed searches return
    # different solutions from run to run.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = _EFFORT
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise Contradiction("no sizes are within all bounds")
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    values = tuple(solver.value(root) for root in roots)
    assert asked.holds(values), values
    return values


def _state(asked: System, model: Any) -> list[Any]:
    """Adds the system to the solver's model, and returns the model's variables of the roots."""
    ends = asked.ranges[: len(asked.roots)]
    terms = [_Term(model, model.new_int_var(*end, ""), IntegerSpan(*end)) for end in ends]
    value = dict(zip(asked.roots, terms, strict=True)).__getitem__
    columns = [*terms, *(evaluate(expression, value) for expression in asked.derived)]
    for column, (low, high) in zip(columns, asked.ranges, strict=True):
        column.keep_within(low, high)

    def product(parts: Parts, most: int) -> _Term:
        factor, places = parts
        first = columns[places[0]] if places else _Term(model, 1, IntegerSpan(1, 1))
        rest = [columns[place] for place in places[1:]]
        return reduce(lambda a, b: a.times(b, most // factor), rest, first) * factor

    for monomial in asked.monomials:
        whole = product((monomial.factor, monomial.columns), monomial.high)
        whole.keep_within(monomial.low, monomial.high)
    for expression in asked.residual:
        evaluate(expression, value).keep_within(0, 0)
    if asked.total:
        parts = [product(term, asked.total.high) for term in asked.total.terms]
        sum(parts, start=_Term(model, 0, IntegerSpan(0, 0))).keep_within(
            asked.total.low, asked.total.high
        )
    return [term.expression for term in terms]


@dataclass(frozen=True, slots=True)
class _Term:
    """A linear expression of the solver and its range, as a number for `ops.sizes.evaluate`."""

    model: Any
    expression: Any
    ends: IntegerSpan

    def keep_within(self, low: int, high: int) -> None:
        self.model.add_linear_constraint(self.expression, low, high)

    def __add__(self, other: Self | int) -> "_Term":
        if isinstance(other, int):
            return _Term(self.model, self.expression + other, self.ends + other)
        return _Term(self.model, self.expression + other.expression, self.ends + other.ends)

    __radd__ = __add__

    def __mul__(self, other: Self | int) -> "_Term":
        if isinstance(other, int):
            return _Term(self.model, self.expression * other, self.ends * other)
        return self._product(other, self.ends * other.ends)

    def times(self, other: "_Term", most: int) -> "_Term":
        """The product of two positive terms, with the added condition that it is at most `most`.

        The condition keeps the range of the product small, and so within the solver's 64 bits.
        """
        ends = self.ends * other.ends
        return self._product(other, IntegerSpan(min(ends.low, most), min(ends.high, most)))

    def __floordiv__(self, divisor: int) -> "_Term":
        # Rounded down: the solver's own division rounds towards 0
        whole = self._named(self.ends // divisor)
        self.model.add_linear_constraint(
            self.expression - whole.expression * divisor, 0, divisor - 1
        )
        return whole

    def _product(self, other: "_Term", ends: IntegerSpan) -> "_Term":
        product = self._named(ends)
        factors = []
        for term in (self, other):
            # The solver multiplies variables, not sums of them
            variable = self._named(term.ends)
            self.model.add(variable.expression == term.expression)
            factors.append(variable.expression)
        self.model.add_multiplication_equality(product.expression, factors)
        return product

    def _named(self, ends: IntegerSpan) -> "_Term":
        """A new variable of the model with this range.

        Raises:
            _TooLarge: the range does not fit the solver's 64 bits.
        """
        if max(abs(ends.low), abs(ends.high)) > _LARGEST:
            raise _TooLarge
        return _Term(self.model, self.model.new_int_var(ends.low, ends.high, ""), ends)
