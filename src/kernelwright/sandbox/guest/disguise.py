"""Guest side: functions of ours that stand in for others."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_stocks: dict[Any, Any] = {}
"""Function of ours -> what it stands in for."""


def disguised(stock: Callable[..., Any]) -> Callable[[F], F]:
    """Gives a function the names of another, as `functools.wraps` does, without a way back to it,
    so that a candidate cannot see that the function is ours."""

    def named(ours: F) -> F:
        update_wrapper(ours, stock)
        del vars(ours)["__wrapped__"]
        _stocks[ours] = stock
        return ours

    return named


def stock_of(function: object) -> object:
    """Returns the original that a function of ours stands in for; None for any other function."""
    return _stocks.get(function)
