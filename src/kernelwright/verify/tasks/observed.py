"""The calls of a reference: names of operators and functions, and whether sorted values are
equal."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.sandbox.shared.modes import PlainDispatchMode

ORDERS = frozenset({"topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode"})
"""ATen operators that give indices of values in order. Equal values have no order."""


class OperatorNotes(PlainDispatchMode):
    """Notes the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Notes the functions that are called: some run as operators of other names."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        # `x != x` is how code without `isnan` looks for NaN.
        is_own_test = name.strip("_") in ("ne", "eq") and len(args) > 1 and args[0] is args[1]
        self.seen.add("isnan" if is_own_test else name)
        return func(*args, **(kwargs or {}))


class Ties(PlainDispatchMode):
    """Notes whether an operator orders values of which some are equal."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.are_seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_stable = (kwargs or {}).get("stable", False)  # then the order of ties is no choice
        if func.overloadpacket.__name__ in ORDERS and args[0].ndim and not is_stable:
            self.are_seen |= _has_equal(args[0], func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _has_equal(values: torch.Tensor, func: Any, args: tuple[Any, ...], kwargs: Any) -> bool:
    """Whether two values are equal along the dimension that the operator orders."""
    names = [argument.name for argument in func._schema.arguments]
    at = names.index("dim") if "dim" in names else len(args)
    dim = kwargs.get("dim", args[at] if at < len(args) else -1)
    rows = values.sort(dim=dim).values
    return bool((rows.diff(dim=dim) == 0).any())
