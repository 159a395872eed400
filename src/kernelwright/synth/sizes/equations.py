"""Equations between sizes, solved as they come.

Where calls of a program meet, sizes must be equal. Nearly always a variable can be replaced by the
other side; a rounded division gets its remainder as a new variable, and a variable that must leave
a certain rest gets a new one that counts its multiples. The variables that are left ("roots") are
free: the assignments that solve the equations correspond one to one to assignments of the roots.
What cannot be turned like this is kept in `residual`, to be checked.
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
        """Variables that are no roots."""
        return len(self._bound)

    def equate(self, a: Size, b: Size) -> None:
        """Ask that a = b.

        Raises:
            Contradiction: it cannot be, whatever the sizes.
        """
        a, b = self.solved(a), self.solved(b)
        if a == b:
            return
        if isinstance(b, Var) and isinstance(a, Var | int):
            self._bound[b] = a
        elif isinstance(a, Var) and isinstance(b, int):
            self._bound[a] = b
        else:
            self._solve(a - b)

    def solved(self, size: Size) -> Size:
        """The size in terms of roots."""
        if isinstance(size, Var):
            known = self._bound.get(size)
            if known is None:
                return size
            value = self.solved(known)
            if value is not known:
                self._bound[size] = value
            return value
        if isinstance(size, int) or not any(v in self._bound for v in variables(size)):
            return size
        return self._substituted(size) if self.remainders else evaluate(size, self.solved)

    def bound(self) -> Iterator[tuple[Var, Size]]:
        """Every variable that is no root, in terms of roots."""
        for variable in list(self._bound):
            yield variable, self.solved(variable)

    def ends(self, size: Size, low: int = 1) -> tuple[float, float]:
        """The least and the largest value of a size in terms of roots, where roots that are no
        remainders nor multiples are `low` at least."""
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
                return prod(leasts) if min(leasts) >= 0 else -inf, inf
            case Linear():
                least = most = size.constant
                for term, factor in size.terms:
                    ends = self.ends(term, low)
                    least += factor * ends[factor < 0]
                    most += factor * ends[factor > 0]
                return least, most
        raise TypeError(size)

    def settle(self) -> None:
        """Try what stayed behind again, with all that is known now.

        Raises:
            Contradiction: one of them cannot be 0.
        """
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
        """Quotients of remainders alone often have one value: (r + 1) // 4 where r < 2."""
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
        """Ask that `difference`, which is in terms of roots, is 0."""
        terms, constant = linear(difference)
        divisor = gcd(*terms.values())
        if (constant % divisor) if divisor else constant:
            raise Contradiction(f"{difference} cannot be 0")
        if not divisor:
            return
        difference //= divisor
        assert isinstance(difference, Expr)
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
        """A variable that is not 0 and that all of several terms are multiples of."""
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
        """(root, factor) of the terms that can be brought to the other side."""
        terms, _ = linear(difference)
        inside = {v for term in terms if not isinstance(term, Var) for v in variables(term)}
        for term, factor in terms.items():
            if isinstance(term, Var) and term not in self.remainders and term not in inside:
                yield term, factor

    def _isolate(self, difference: Expr) -> bool:
        """x + E = 0: x is -E. The x is taken whose other side has the fewest negative parts: of
        x = y + 2 the y stays, since any y will do."""
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
        """A // d = E: A is d * E and a remainder, if that can be solved."""
        for term, factor in linear(difference)[0].items():
            if isinstance(term, Quotient) and abs(factor) == 1:
                remainder = self._make()
                self.remainders[remainder] = term.divisor
                exact = term.of - (term - difference * factor) * term.divisor - remainder
                if isinstance(exact, Expr) and (self._isolate(exact) or self._unround(exact)):
                    return True
                del self.remainders[remainder]
        return False

    def _divide(self, difference: Expr) -> bool:
        """d * x = E: x is E // d, and d divides E."""
        candidates = list(self._candidates(difference))
        if not candidates:
            return False
        variable, factor = min(candidates, key=lambda candidate: abs(candidate[1]))
        divisor = abs(factor)
        other_side = (factor * variable - difference) * (factor // divisor)
        terms, constant = linear(other_side)
        uneven = [(term, f) for term, f in terms.items() if f % divisor]
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
        """Bind the variable so that factor * variable + constant is a multiple of the divisor."""
        common = gcd(factor, divisor)
        if constant % common:
            raise Contradiction(f"{divisor} never divides {factor} * {variable.name} + {constant}")
        step = divisor // common
        rest = -(constant // common) * pow(factor // common, -1, step) % step
        smallest = rest if rest or variable in self.remainders else step
        multiple = self._make()
        self.multiples.add(multiple)
        self._bound[variable] = (multiple - 1) * step + smallest

    def _make(self) -> Var:
        self._num_made += 1
        return Var(f"~{self._num_made}")
