"""Guest side of the compile check: kernels are compiled where they would be launched."""

import re
import subprocess
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch
from triton import knobs
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from kernelwright.sandbox.guest.candidate import NOT_COMPILED, IllegalKernel, LoadedCandidate
from kernelwright.sandbox.guest.own_code import OwnCode
from kernelwright.sandbox.guest.stub_gpu import MAX_SHARED_BYTES
from kernelwright.sandbox.shared.tensors import TensorMeta

Kernels = dict[str, dict[str, int]]


def collect(
    loaded: LoadedCandidate, inputs: list[dict[str, Any]], limit: OwnCode, *, measures: bool
) -> dict[str, Any]:
    """Calls the candidate with meta tensors; every launch compiles its kernel and returns.

    Returns:
        The types of each kernel's arguments ("signatures"). Where it `measures`, also registers,
            spilled bytes and shared memory of each kernel, the largest of all compilations.

    Raises:
        CompilationError, PTXASError, IllegalKernel: a kernel does not compile.
        OutOfResources: a kernel needs more than the shared memory of a block.
        OwnCodeTimeout: the candidate's own code takes too long.
    """
    compiled: Kernels = {}
    signatures: list[list[Any]] = []
    run: Any = JITFunction.run

    def compile_only(kernel: Any, *args: Any, grid: Any, **kwargs: Any) -> Any:
        kwargs.pop("warmup")
        if callable(grid):  # a launch evaluates it, and it may be wrong
            grid({**dict(zip(kernel.arg_names, args, strict=False)), **kwargs})
        try:
            with limit.paused():
                kernel_made = run(kernel, *args, grid=grid, warmup=True, **kwargs)
        except NOT_COMPILED:
            raise  # a candidate may catch these, and launch another kernel
        except Exception as error:
            if not _is_of_compiler(error):
                raise  # arguments that do not fit the kernel: the same
            raise IllegalKernel(f"{error}") from error
        if kernel_made.metadata.shared > MAX_SHARED_BYTES:
            raise OutOfResources(kernel_made.metadata.shared, MAX_SHARED_BYTES, "shared memory")
        signatures.append(list(kernel_made.src.signature.values()))
        if measures:
            _note(compiled, kernel.fn.__name__, _usage(kernel_made))
        return kernel_made

    JITFunction.run = compile_only
    try:
        with torch.no_grad(), limit.of(loaded.path):
            loaded.call(0)(*[_described(item) for item in inputs])
    finally:
        JITFunction.run = run
    return {"kernels": compiled, "signatures": signatures}


def _is_of_compiler(error: BaseException) -> bool:
    """Whether Triton's compiler raised the error while it read the body of a kernel."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(f.f_globals.get("__name__")).startswith("triton.compiler") for f in frames)


def _described(item: dict[str, Any]) -> Any:
    """Returns a tensor of this description without memory, so that library calls in between cost
    nothing."""
    if "literal" in item:
        return item["literal"]
    meta = TensorMeta.from_json(item)
    return torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device="meta")


def _note(compiled: Kernels, name: str, usage: dict[str, int]) -> None:
    before = compiled.get(name, {})
    compiled[name] = {key: max(value, before.get(key, 0)) for key, value in usage.items()}


def _usage(made: Any) -> dict[str, int]:
    registers, spills = _resource_usage(made.asm["cubin"])
    return {"registers": registers, "spills": spills, "shared_bytes": int(made.metadata.shared)}


def _resource_usage(cubin: bytes) -> tuple[int, int]:
    """Returns registers per thread and bytes of local memory per thread, as cuobjdump reads
    them."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = Path(knobs.nvidia.cuobjdump.path)
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    usage = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}
    return usage["REG"], usage["LOCAL"] + usage["STACK"]
