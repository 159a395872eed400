"""Optimized modules as packages of AOTInductor: machine code, kernels and weights in one file.

The package runs where PyTorch is, from Python (`torch._inductor.aoti_load_package`) and from C++
(`AOTIModelPackageLoader`). Inductor compiles what our kernels leave; the kernels are in the package
as they were verified.
"""

import inspect
import os
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import Dim, ExportedProgram, ShapesCollection

from kernelwright.core.delivered import OURS
from kernelwright.core.errors import UsageError, file_error
from kernelwright.deploy.place import check_place
from kernelwright.search.arguments import Call
from kernelwright.search.module.importing import Compute, importable
from kernelwright.search.optimized import REPLACED, Delivery, delivery_of
from kernelwright.search.sizes.signature import Signature


def export(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes an optimized module as a package that runs without kernelwright.

    The package serves the calls for which the module was optimized: these shapes, or the ranges of
    `dynamic_shapes`, in this mode and on this device. The package has the module's current weights.

    Args:
        module: a module that `kernelwright.optimize` returned.
        path: the name of the file; it ends in ".pt2".

    Raises:
        UsageError: the module is no optimized module, PyTorch cannot export the module, or the file
            cannot be written.
    """
    delivery = delivery_of(module)
    example = _example(delivery.signature)
    name = delivery.kind.__name__
    if delivery.compute is None or not delivery.on_gpu or delivery.result["form"] not in OURS:
        whole = _original(module, delivery)
        package(whole, example, path, shapes=_shapes(whole, example, delivery.signature), name=name)
        return
    compute = uncompiled(delivery.compute)
    whole = deployed(module, delivery, compute, example)
    shapes = _shapes(whole, example, delivery.signature)
    with importable(compute.__module__, compute.__globals__):
        package(whole, example, path, shapes=shapes, name=name)


def uncompiled(compute: Compute) -> Any:
    """The function inside torch.compile, if a `fused_operator` of ours uses torch.compile.

    Inductor compiles the whole package anyway.
    """
    own: Any = compute
    return own.__globals__.get("uncompiled_operator", own)


def package(
    module: torch.nn.Module,
    example: Call,
    path: str | os.PathLike[str],
    *,
    shapes: Any = None,
    name: str = "",
) -> None:
    """Write any module as a package of AOTInductor.

    Args:
        example: a call of the module.
        shapes: sizes that vary, as `dynamic_shapes` of torch.export.
        name: of the module, for messages.

    Raises:
        UsageError: as of `export`.
    """
    place = Path(path)
    check_place(place)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of tree specs
            exported = captured(module, example, shapes)
            torch._inductor.aoti_compile_and_package(exported, package_path=str(place))
    except OSError as error:
        raise file_error(error) or UsageError(f"{place} cannot be written: {error}") from error
    except Exception as error:  # Dynamo, Inductor and compilers raise anything
        raise UsageError(
            f"PyTorch cannot export {name or type(module).__name__}:"
            f" {type(error).__name__}: {error}",
            remedy="save the module with kernelwright.save instead",
        ) from error


def captured(module: torch.nn.Module, example: Call, shapes: Any = None) -> ExportedProgram:
    """The graph of a module, with launches of Triton kernels in it.

    Args:
        shapes: as of `package`.

    Raises:
        Exception: whatever Dynamo raises.
    """
    args, kwargs = example
    # Dynamo reads launches of Triton kernels; the other capture would run them.
    return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=True)


def deployed(
    module: torch.nn.Module, delivery: Delivery, compute: Compute, example: Call
) -> torch.nn.Module:
    """A module that always computes with the kernels, and never with the original forward.

    Its forward has one parameter for each argument of the example, because torch.export matches
    `dynamic_shapes` by the names of parameters.
    """
    args, kwargs = example
    parameters = list(inspect.signature(delivery.kind.forward).parameters)[1:]
    named = [name for name in parameters[: len(args)] if name not in kwargs]
    names = [*named, *(f"argument_{i}" for i in range(len(named), len(args)))]
    signature = [*names, *(["*", *kwargs] if kwargs else [])]
    keywords = ", ".join(f"{name!r}: {name}" for name in kwargs)
    positional = f"({', '.join(names)}{',' * bool(names)})"
    text = f"def forward(self, {', '.join(signature)}):\n"
    text += f"    return self.compute({positional}, {{{keywords}}})\n"
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    kind = type("Deployed", (_Deployed,), {"forward": namespace["forward"]})
    whole: torch.nn.Module = kind(module, delivery, compute)
    return whole


class _Deployed(torch.nn.Module):
    """The calls of an optimized module that its source computes."""

    def __init__(self, module: torch.nn.Module, delivery: Delivery, compute: Compute) -> None:
        super().__init__()
        self.module = module
        self._lowered, self._compute = delivery.lowered, compute
        self.train(delivery.is_training)

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of the optimized module for these arguments."""
        leaves = pytree.tree_leaves((args, kwargs))
        inputs = self._lowered.inputs_of(self.module, leaves)
        results = self._lowered.separated(self._compute(*inputs))
        self._lowered.store(self.module, results)
        return self._lowered.rebuild(results, args, kwargs)


def _original(module: torch.nn.Module, delivery: Delivery) -> torch.nn.Module:
    """The module as it was before the search."""
    original = delivery.kind.__new__(delivery.kind)
    state = dict(vars(module))
    replaced = state.pop(REPLACED, None)
    vars(original).update(state)
    if replaced is not None:
        original.forward = replaced
    return original


def _example(signature: Signature) -> Call:
    """A call of the signature. Sizes that vary are 4, or as near as their range allows.

    torch.export treats sizes 0 and 1 as constants, so an example must not have them.
    """
    lengths = {
        (place.leaf, place.dim): place.length(
            {
                name: max(bounds.low, min(bounds.high, 4))
                for name, bounds in signature.ranges.items()
            }
        )
        for place in signature.places
    }
    leaves = []
    for number, leaf in enumerate(signature.leaves):
        if isinstance(leaf, tuple) and len(leaf) == 3 and isinstance(leaf[1], torch.dtype):
            shape, dtype, device = leaf
            sizes = [lengths.get((number, dim), size) for dim, size in enumerate(shape)]
            leaves.append(torch.zeros(sizes, dtype=dtype, device=device))
        else:
            leaves.append(leaf)
    args, kwargs = pytree.tree_unflatten(leaves, signature.spec)
    return args, kwargs


def _shapes(module: torch.nn.Module, example: Call, signature: Signature) -> Any:
    """Sizes that vary, as torch.export wants them."""
    if not signature.places:
        return None
    args, kwargs = example
    leaves = pytree.tree_leaves(example)
    sizes = {name: Dim(name, min=r.low, max=r.high) for name, r in signature.ranges.items()}
    shapes: dict[int, dict[int, Any]] = {}
    for place in signature.places:
        size = sizes[place.size]
        scaled = size if place.scale == 1 else place.scale * size
        shapes.setdefault(place.leaf, {})[place.dim] = (
            scaled if place.shift == 0 else scaled + place.shift
        )
    collection: Any = ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf, dims in shapes.items():
        collection[leaves[leaf]] = dims
    return collection.dynamic_shapes(module, args, kwargs)
