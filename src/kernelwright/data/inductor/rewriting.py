"""Rewrites Inductor's module as a candidate: kernels that stand alone, plans, and a wrapper."""

import ast
import random
import re
from collections.abc import Mapping

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import plan_comment
from kernelwright.data.inductor.harvest import Harvest
from kernelwright.data.inductor.kernels import Rewritten, rewrite_kernel
from kernelwright.data.inductor.reading import InductorKernel, NotRewritten, read_module
from kernelwright.data.inductor.runtime import runtime_functions
from kernelwright.data.inductor.schedule import draw_blocks
from kernelwright.data.inductor.wrapper import Launch, Wrapper, read_wrapper
from kernelwright.programs.program import Program

MOST_GRID = 65_535
"""Programs along any axis of a grid but the first."""
_LOOPS = {"reduction": "looped", "persistent_reduction": "one_pass"}
_LONGEST_NAME = 60
_NAME = re.compile(r"\w+")


def rewrite(harvest: Harvest, program: Program, seed: int, mode: str) -> Candidate:
    """Rewrite Inductor's code as a candidate.

    Args:
        seed: of the draws of blocks.
        mode: "pure" or "hybrid". Only a hybrid candidate may call libraries.

    Raises:
        NotRewritten: the code has no kernel, calls a library in pure mode, or has a statement that
            is not understood.
    """
    module = read_module(harvest.code)
    wrapper = read_wrapper(module, harvest.inputs)
    if wrapper.library and mode == "pure":
        raise NotRewritten("library call")
    writing = _Writing(program, random.Random(seed))
    body = []
    for step in wrapper.steps:
        if isinstance(step, Launch):
            body += writing.launch(step, module.kernels[step.kernel])
        else:
            body.append(step)
    if not writing.plans:
        raise NotRewritten("no kernel")
    return Candidate(
        source=writing.source(wrapper, body), plan=tuple(writing.plans), origin="inductor"
    )


class _Writing:
    def __init__(self, program: Program, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.plans: list[KernelPlan] = []
        self._kernels: dict[str, Rewritten | None] = {}
        """By Inductor's name; None where a kernel stores nothing: it only checked its inputs."""
        self._helpers: set[str] = set()
        self._combines: dict[str, ast.FunctionDef] = {}

    def launch(self, launch: Launch, kernel: InductorKernel) -> list[str]:
        """The statements that launch a kernel; empty if the kernel stores nothing.

        A kernel is rewritten at its first launch.
        """
        if launch.kernel not in self._kernels:
            self._kernels[launch.kernel] = self._rewritten(launch, kernel)
        rewritten = self._kernels[launch.kernel]
        if rewritten is None:
            return []
        plan = next(plan for plan in self.plans if plan.kernel == rewritten.function.name)
        names = [a.arg for a in kernel.function.args.args if a.annotation is None]
        texts = dict(zip(names, map(ast.unparse, launch.arguments), strict=True))
        numels = [
            name for name in names if name.endswith("numel") and name not in rewritten.constants
        ]
        lines = [f"{name} = {texts[name]}" for name in numels if texts[name] != name]
        values = [name if name in numels else texts[name] for name in rewritten.parameters]
        values += [f"{name}={value}" for name, value in plan.tiles.items()]
        sizes = {n: str(rewritten.constants.get(n, n)) for n in names if n.endswith("numel")}
        grid = _grid(kernel.grid, sizes, plan.tiles)
        return [*lines, f"{plan.kernel}[{grid}]({', '.join(values)})"]

    def _rewritten(self, launch: Launch, kernel: InductorKernel) -> Rewritten | None:
        fuses = self._fused(launch.nodes)
        name = self._name(fuses)
        rewritten = rewrite_kernel(kernel, name, _parameter_names(launch, kernel))
        if not rewritten.stores:
            return None
        self._helpers |= rewritten.helpers
        # The candidate is one module, in which two functions cannot share a name.
        for combine in rewritten.combines:
            known = self._combines.setdefault(combine.name, combine)
            if ast.unparse(known) != ast.unparse(combine):
                raise NotRewritten("two functions of one name")
        loop = _LOOPS.get(
            kernel.kind, "pointwise flat" if len(kernel.hints) == 1 else "pointwise tiles"
        )
        if "associative_scan" in ast.unparse(kernel.function):
            loop = "scan"
        tiles = draw_blocks(kernel, self.rng)
        self.plans.append(KernelPlan(kernel=name, fuses=fuses, loop=loop, tiles=tiles))
        return rewritten

    def _fused(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """The operators of the calls behind some nodes, in program order.

        A node has the name of the value that it makes. If a call makes several values, the node has
        the operator's name.
        """
        named = [
            call.op
            for call in self.program.calls
            if set(call.outputs) & set(nodes)
            or (len(call.outputs) > 1 and any(_stem(node) == call.op for node in nodes))
        ]
        return tuple(named) or tuple(dict.fromkeys(map(_stem, nodes))) or ("copy",)

    def _name(self, fuses: tuple[str, ...]) -> str:
        taken = {plan.kernel for plan in self.plans}
        stem = "_".join(fuses)[:_LONGEST_NAME].rstrip("_")
        names = (f"{stem}{f'_{n}' * (n > 1)}_kernel" for n in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def source(self, wrapper: Wrapper, body: list[str]) -> str:
        functions = [*runtime_functions(sorted(self._helpers)), *self._combines.values()]
        kernels = [rewritten for rewritten in self._kernels.values() if rewritten is not None]
        parts = [ast.unparse(function) for function in functions]
        for plan, rewritten in zip(self.plans, kernels, strict=True):
            parts.append("\n".join([*plan_comment(plan), ast.unparse(rewritten.function)]))
        parts.append(_function(self.program, wrapper, body))
        imports = ["import torch", "import triton", "import triton.language as tl"]
        if any("libdevice." in part for part in parts):
            imports.append("from triton.language.extra import libdevice")
        return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(parts) + "\n"


def _parameter_names(launch: Launch, kernel: InductorKernel) -> dict[str, str]:
    """New names for a kernel's parameters: pointers after their tensors, sizes as in the wrapper.

    Empty if two parameters would get the same name.
    """
    names = [a.arg for a in kernel.function.args.args if a.annotation is None]
    wanted = {
        name: f"{argument.id}_ptr" if "_ptr" in name else argument.id
        for name, argument in zip(names, launch.arguments, strict=True)
        if isinstance(argument, ast.Name) and ("_ptr" in name or name.startswith("ks"))
    }
    return wanted if len(set(wanted.values())) == len(wanted) else {}


def _grid(kind: str, sizes: Mapping[str, str], tiles: Mapping[str, int]) -> str:
    """The launch grid, as an expression.

    Args:
        kind: Inductor's name of the grid.
        sizes: name of an axis's number of elements -> its expression.
        tiles: name of a block -> its elements.

    Raises:
        NotRewritten: the kind of grid is not known.
    """

    def along(axis: str) -> str:
        return f"triton.cdiv({sizes[f'{axis}numel']}, {tiles[f'{axis.upper()}BLOCK']})"

    if kind == "Grid1D":
        return f"({along('x')},)"
    if kind == "Grid2D":
        return f"({along('x')}, {along('y')})"
    if kind == "Grid2DWithYZOverflow":
        # CUDA allows 65,535 blocks along y and z, so a longer y is spread over both.
        deep = f"triton.cdiv({along('y')}, {MOST_GRID})"
        return f"({along('x')}, triton.cdiv({along('y')}, {deep}), {deep})"
    if kind == "Grid3D":
        return f"({along('x')}, {along('y')}, {along('z')})"
    raise NotRewritten(f"grid {kind}")


def _function(program: Program, wrapper: Wrapper, body: list[str]) -> str:
    """The text of `fused_operator`. It first reads the sizes that its body uses."""
    used = set(_NAME.findall(" ".join(body)))
    sizes: dict[str, list[str]] = {}
    for name, place in wrapper.sizes.items():
        if name in used:
            sizes.setdefault(place.partition(".")[0], []).append(name)
    read = [
        f"{', '.join(names)} = {', '.join(wrapper.sizes[name] for name in names)}"
        for names in sizes.values()
    ]
    parameters = ", ".join(value.name for value in program.inputs)
    lines = "\n".join(f"    {line}" for line in [*read, *body])
    return f"def fused_operator({parameters}):\n{lines}"


def _stem(node: str) -> str:
    """ "add" of "add_1"."""
    head, _, tail = node.rpartition("_")
    return head if tail.isdigit() else node
