"""Equations between sizes, solved as they come.

Where a call reads the result of another call, sizes must be equal. There are three ways to solve an
equation. Nearly always a variable is replaced by the other side. A rounded division gets a new
variable for its remainder. A variable with a fixed rest modulo a number is replaced by a new
variable that counts the multiples.

The variables that are left ("roots") are free: assignments of the roots correspond one to one to
solutions of the equations. Equations without such a solution are kept in `residual`, and checked
for each assignment.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from math import gcd, inf, isinf, prod
from operator import mul

from kernelwright.ops.sizes import (
    Expr,
    Linear,
    Quotient,
    Size,
    SizeProduct,
    Var,
    evaluate,
    linear,
    variables,
)


class Contradiction(ValueError):
    """No sizes satisfy the equations."""


class Equations:
    """A growing system of equations between sizes. Variables are integers from 1 on."""

    def __init__(self) -> None:
        self.remainders: dict[Var, int] = {}
        """Variables made here that are remainders -> their divisor; they are 0 .. divisor - 1."""
        self.multiples: set[Var] = set()
        """Variables made here that count multiples, from 1 on."""
        self.residual: list[Expr] = []
        """Expressions that must be 0."""
        self._bound: dict[Var, Size] = {}
        self._num_made = 0

    @property
    def num_bound(self) -> int:
        """The number of variables that are no roots."""
        return len(self._bound)

    def equate(self, a: Size, b: Size) -> None:
        """Adds the equation a = b.

        Raises:
            Contradiction: no sizes satisfy the equation.
        """
        a, b = self.solved(a), self.solved(b)
        if a == b:
            return
        # The usual cases, a variable against a variable or a number, need no general solver.
        if isinstance(b, Var) and isinstance(a, Var | int):
            self._bound[b] = a
        elif isinstance(a, Var) and isinstance(b, int):
            self._bound[a] = b
        else:
            self._solve(a - b)

    def solved(self, size: Size) -> Size:
        """The size in terms of roots: every bound variable is replaced by its value."""
        if isinstance(size, Var):
            known = self._bound.get(size)
            if known is None:
                return size
            value = self.solved(known)
            # Chains of bound variables are shortened, so that the next look-up takes one step.
            if value is not known:
                self._bound[size] = value
            return value
        if isinstance(size, int) or self._bound.keys().isdisjoint(variables(size)):
            return size
        # Only quotients of remainders need the slower way.
        return self._substituted(size) if self.remainders else evaluate(size, self.solved)

    def bound(self) -> Iterator[tuple[Var, Size]]:
        """Yields (variable, value in terms of roots) for every variable that is no root."""
        for variable in list(self._bound):
            yield variable, self.solved(variable)

    def ends(self, size: Size, low: int = 1) -> tuple[float, float]:
        """(least, largest) value of a size that is given in terms of roots.

        Roots are at least `low`; multiples are at least 1, and remainders at least 0. The largest
        value is `inf` if there is no bound. The interval may be wider than the true range.
        """
        match size:
            case int():
                return size, size
            case Var():
                if (divisor := self.remainders.get(size)) is not None:
                    return 0, divisor - 1
                return 1 if size in self.multiples else low, inf
            case Quotient():
                least, most = (
                    end if isinf(end) else end // size.divisor for end in self.ends(size.of, low)
                )
                return least, most
            case SizeProduct():
                leasts = [self.ends(factor, low)[0] for factor in size.factors]
                # With a negative factor, the least values do not give the least product.
                return prod(leasts) if min(leasts) >= 0 else -inf, inf
            case Linear():
                least = most = size.constant
                for term, factor in size.terms:
                    ends = self.ends(term, low)
                    # A negative factor exchanges the ends.
                    least += factor * ends[factor < 0]
                    most += factor * ends[factor > 0]
                return least, most
        raise TypeError(size)

    def settle(self) -> None:
        """Tries the residual equations again, with all values that are known now.

        Raises:
            Contradiction: an expression of `residual` cannot be 0.
        """
        # A solved equation binds variables, which may make another equation solvable. The loop ends
        # when a pass changes nothing.
        while self.residual:
            before, self.residual = self.residual, []
            for expression in before:
                self._solve(self.solved(expression))
            if self.residual == before:
                return

    # Substituting

    def _substituted(self, size: Size) -> Size:
        match size:
            case Var():
                return self.solved(size)
            case Quotient():
                return self._without_remainders(self._substituted(size.of) // size.divisor)
            case SizeProduct():
                return reduce(mul, map(self._substituted, size.factors))
            case Linear():
                return sum((self._substituted(t) * f for t, f in size.terms), start=size.constant)
        return size

    def _without_remainders(self, size: Size) -> Size:
        """The size with quotients of remainders replaced by a number, if they have one value.

        An example is (r + 1) // 4 where r < 2: the quotient is 0.
        """
        for term, factor in linear(size)[0].items():
            if isinstance(term, Quotient) and all(v in self.remainders for v in variables(term)):
                parts, constant = linear(term.of)
                if not all(isinstance(part, Var) for part in parts):
                    continue
                tops = [f * (self.remainders[v] - 1) for v, f in parts.items()]  # type: ignore[index]
                low = (constant + sum(top for top in tops if top < 0)) // term.divisor
                high = (constant + sum(top for top in tops if top > 0)) // term.divisor
                if low == high:
                    size = size - factor * (term - low)
        return size

    # Solving

    def _solve(self, difference: Size) -> None:
        """Adds the equation difference = 0; `difference` is in terms of roots.

        Raises:
            Contradiction: no integers satisfy the equation.
        """
        terms, constant = linear(difference)
        # Every sum of the terms is a multiple of their gcd, and so must be the constant.
        divisor = gcd(*terms.values())
        if (constant % divisor) if divisor else constant:
            raise Contradiction(f"{difference} cannot be 0")
        if not divisor:
            return
        difference //= divisor
        assert isinstance(difference, Expr)
        # x * a = x * b is a = b, because x is not 0. Only then can `a` be isolated.
        if not constant and (common := self._common_factor(terms)):
            rest = (term // common * factor for term, factor in terms.items())
            self._solve(sum(rest, start=0))
            return
        least, most = self.ends(difference)
        if not least <= 0 <= most:
            raise Contradiction(f"{difference} cannot be 0")
        if not (self._isolate(difference) or self._unround(difference) or self._divide(difference)):
            self.residual.append(difference)

    def _common_factor(self, terms: Iterable[Expr]) -> Var | None:
        """A variable that is a factor of all terms and cannot be 0; None for a single term."""
        first, *others = (
            term.factors if isinstance(term, SizeProduct) else (term,) for term in terms
        )
        for factor in first if others else ():
            if not isinstance(factor, Var) or factor in self.remainders:
                continue
            if all(factor in other for other in others):
                return factor
        return None

    def _candidates(self, difference: Expr) -> Iterator[tuple[Var, int]]:
        """Yields (root, factor) of the terms that may stand alone on one side of the equation."""
        terms, _ = linear(difference)
        # A variable that occurs inside another term too would still be on both sides.
        inside = {v for term in terms if not isinstance(term, Var) for v in variables(term)}
        for term, factor in terms.items():
            if isinstance(term, Var) and term not in self.remainders and term not in inside:
                yield term, factor

    def _isolate(self, difference: Expr) -> bool:
        """Solves x + E = 0 by x = -E, if some x has the factor 1 or -1.

        Of several, the x with the fewest negative parts in -E is bound. For x = y + 2 this is x:
        every y gives a valid x, but not every x gives a valid y.
        """
        best: tuple[int, Var, Size] | None = None
        for variable, factor in self._candidates(difference):
            if abs(factor) == 1:
                value = variable - difference * factor
                terms, constant = linear(value)
                num_negative = sum(part < 0 for part in (*terms.values(), constant))
                if best is None or num_negative < best[0]:
                    best = num_negative, variable, value
        if best is None:
            return False
        self._bound[best[1]] = best[2]
        return True

    def _unround(self, difference: Expr) -> bool:
        """Solves A // d = E by A = d * E + remainder, if a variable of A can be isolated."""
        for term, factor in linear(difference)[0].items():
            if isinstance(term, Quotient) and abs(factor) == 1:
                remainder = self._make()
                # The remainder is entered first: `_isolate` must not bind the remainder itself.
                self.remainders[remainder] = term.divisor
                exact = term.of - (term - difference * factor) * term.divisor - remainder
                if isinstance(exact, Expr) and (self._isolate(exact) or self._unround(exact)):
                    return True
                # Without an equation the remainder would be a root that no size uses.
                del self.remainders[remainder]
        return False

    def _divide(self, difference: Expr) -> bool:
        """Solves d * x = E by x = E // d, with the condition that d divides E."""
        candidates = list(self._candidates(difference))
        if not candidates:
            return False
        # The least divisor leaves the weakest condition: fewer assignments fail it.
        variable, factor = min(candidates, key=lambda candidate: abs(candidate[1]))
        divisor = abs(factor)
        other_side = (factor * variable - difference) * (factor // divisor)
        terms, constant = linear(other_side)
        uneven = [(term, f) for term, f in terms.items() if f % divisor]
        # If a single variable decides whether d divides E, its valid values are known: they lie in
        # equal steps. Else the condition can only be checked for each assignment.
        if len(uneven) == 1 and isinstance(uneven[0][0], Var):
            self._bind_multiples(uneven[0][0], uneven[0][1], constant, divisor)
            self._solve(self.solved(difference))
        else:
            self._bound[variable] = other_side // divisor
            must_vanish = self.solved(variable) * divisor - other_side
            assert isinstance(must_vanish, Expr)
            self.residual.append(must_vanish)
        return True

    def _bind_multiples(self, variable: Var, factor: int, constant: int, divisor: int) -> None:
        """Binds the variable so that the divisor divides factor * variable + constant.

        Raises:
            Contradiction: the divisor divides this for no value of the variable.
        """
        common = gcd(factor, divisor)
        if constant % common:
            raise Contradiction(f"{divisor} never divides {factor} * {variable.name} + {constant}")
        step = divisor // common
        # After division by the common factor, `factor` has an inverse modulo `step`.
        rest = -(constant // common) * pow(factor // common, -1, step) % step
        # Sizes begin at 1, remainders at 0: a rest of 0 is the first value of a remainder alone.
        smallest = rest if rest or variable in self.remainders else step
        multiple = self._make()
        self.multiples.add(multiple)
        self._bound[variable] = (multiple - 1) * step + smallest

    def _make(self) -> Var:
        self._num_made += 1
        # No other module makes names that begin with "~".
        return Var(f"~{self._num_made}")
