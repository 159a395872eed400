"""A candidate: Triton source that claims to compute a program, preceded by its plan."""

import ast
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kernelwright.core.syntax import syntax_tree

PRECISION = "ieee"
"""The precision of tl.dot, unless a plan says another, and of kernels without tl.dot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelPlan:
    """One kernel: what it fuses and how it loops. Printed as the comment above the kernel."""

    kernel: str
    """Name of the `@triton.jit` function."""
    fuses: tuple[str, ...]
    """Operator names in program order."""
    part: tuple[str, ...] = ()
    """The values of the whole program that its fragment computes, in program order; where the
    fragment has several kernels, of all of them. Empty where there is no whole around it."""
    reads: tuple[str, ...] = ()
    """The values that its fragment is given, in the order of the wrapper's parameters. As what it
    makes, said of the first kernel of a fragment alone."""
    makes: tuple[str, ...] = ()
    """The values that its fragment returns, in order."""
    loop: str
    """"pointwise", "one_pass", "looped", "two_pass", "matmul" ..."""
    tiles: dict[str, int] = field(default_factory=dict)
    """Tile sizes in elements, e.g. {"BLOCK_M": 128}, as the code has them; none that it works out
    from the inputs' sizes. With num_warps and num_stages."""
    precision: str = PRECISION
    """The precision of tl.dot: "ieee", "tf32", "tf32x3", "bf16x3"."""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A source that claims to compute a program, and the plans of its kernels."""

    source: str
    """Python text that defines `fused_operator(...)` (or `ModelNew`) and its kernels."""
    plan: tuple[KernelPlan, ...] = ()
    origin: str = "teacher"
    """Who wrote it: "teacher", a model's name, "file" ..."""

    @property
    def schedule(self) -> str:
        """One line that tells candidates of one fragment apart."""
        return " | ".join(
            f"{k.loop} {k.precision} " + " ".join(f"{n}={v}" for n, v in sorted(k.tiles.items()))
            for k in self.plan
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The candidate of `to_json`, also after a way through JSON, which knows no tuples.

        Raises:
            KeyError, TypeError: the values are not of a candidate.
        """
        plan = tuple(_plan(kernel) for kernel in values["plan"])
        return cls(**{**values, "plan": plan})


def _plan(values: dict[str, Any]) -> KernelPlan:
    lists = {name: tuple(values[name]) for name in ("fuses", "part", "reads", "makes")}
    return KernelPlan(**{**values, **lists})


def uses_compile(source: str) -> bool:
    """Whether a source calls torch.compile. False of a text that is not Python."""
    if "compile" not in source:  # before the syntax tree, which takes time
        return False
    try:
        nodes = list(ast.walk(syntax_tree(source)))
    except SyntaxError:
        return False
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) == "torch.compile" for call in calls)
