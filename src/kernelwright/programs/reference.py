"""PyTorch's side of a program: its inputs, its results, and the fp64 oracle."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from kernelwright.core.seed import derive
from kernelwright.programs import extern
from kernelwright.programs.build import map_refs, spelled_args
from kernelwright.programs.draws.families import BEYOND_DOMAINS, FAMILIES, changed
from kernelwright.programs.program import Call, Init, Input, Program
from kernelwright.programs.tensors import attribute_value, drawn_as, memory_format, torch_dtype


def make_inputs(
    program: Program, seed: int, device: str | torch.device = "cpu", family: str = "plain"
) -> list[torch.Tensor]:
    """The program's inputs, drawn as its `Init`s say. Every input has its own random stream.

    A family other than "plain" changes standard normal inputs. Other inputs are weights or have a
    domain, and are only drawn with another seed. The families of `BEYOND_DOMAINS` change such
    inputs too; the caller must expect results where the program is not defined.

    Raises:
        ValueError: no such family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family {family!r} is not one of {', '.join(FAMILIES)}")
    return [make_input(value, seed, device, family) for value in program.inputs]


def make_input(
    value: Input, seed: int, device: str | torch.device = "cpu", family: str = "plain"
) -> torch.Tensor:
    """One of the inputs that `make_inputs` draws."""
    generator = torch.Generator(device).manual_seed(derive(seed, family, value.name))
    return _draw(value, generator, family)


def _draw(value: Input, generator: torch.Generator, family: str) -> torch.Tensor:
    init, input_type = value.init, value.type
    options: dict[str, Any] = {
        "dtype": torch_dtype(drawn_as(input_type.dtype)), "device": generator.device,
    }  # fmt: skip
    shape = input_type.shape
    match init.kind:
        case "randn":
            drawn = torch.randn(shape, generator=generator, **options)
            if init == Init("randn") and drawn.is_floating_point():
                # in the input's own type: its range decides what is extreme
                return _laid_out(
                    changed(family, drawn.to(torch_dtype(input_type.dtype)), generator), value
                )
            drawn = drawn.mul_(init.high).add_(init.low)
        case "rand":
            uniform = torch.rand(shape, generator=generator, **options)
            drawn = uniform.mul_(init.high - init.low).add_(init.low)
        case "randint":
            bounds = (int(init.low), int(init.high))
            drawn = torch.randint(*bounds, shape, generator=generator, **options)
        case "sign":
            drawn = torch.randint(0, 2, shape, generator=generator, **options).mul_(2).sub_(1)
        case _:
            drawn = torch.full(shape, float(init.kind == "ones"), **options)
    drawn = drawn.to(torch_dtype(input_type.dtype))
    if family in BEYOND_DOMAINS and drawn.is_floating_point() and init.kind in ("randn", "rand"):
        drawn = changed(family, drawn, generator)
    return _laid_out(drawn, value)


def _laid_out(drawn: torch.Tensor, value: Input) -> torch.Tensor:
    type_ = value.type
    return drawn.contiguous(memory_format=memory_format(type_.layout.value, type_.rank))


def run(
    program: Program,
    tensors: Sequence[torch.Tensor],
    dtype: torch.dtype | None = None,
    after: Callable[[Call, tuple[torch.Tensor, ...]], tuple[torch.Tensor, ...]] | None = None,
) -> list[torch.Tensor]:
    """The results of the program on these inputs, call by call. Dead values are freed.

    With dtype=torch.float64 the results are the oracle. Floating inputs are widened, and casts to
    narrower floats do nothing. Random operators draw the same masks as in the native dtypes, if
    torch has the same seed.

    Args:
        tensors: one for each input of the program.
        dtype: None for the native dtypes, or torch.float64.
        after: takes a call and its results, and returns the results to continue with.

    Raises:
        ValueError: another dtype, or not one tensor for each input.
    """
    if dtype not in (None, torch.float64):
        raise ValueError(f"dtype {dtype}: only torch.float64 makes an oracle")
    is_wide = dtype is torch.float64
    named = zip(program.inputs, tensors, strict=True)
    env = {value.name: _widened(tensor) if is_wide else tensor for value, tensor in named}
    last_use = {name: i for i, call in enumerate(program.calls) for name in call.refs()}
    with torch.no_grad():
        for i, call in enumerate(program.calls):
            results = _evaluated(program, call, env, is_wide=is_wide)
            if after is not None:
                results = after(call, results)
            env.update(zip(call.outputs, results, strict=True))
            for name in {*call.refs(), *call.outputs}:
                if last_use.get(name, -1) <= i and name not in program.outputs:
                    del env[name]
    return [env[name] for name in program.outputs]


_READS_BITS = frozenset({"aten.view.dtype"})
"""Overloads whose results are other numbers, and may be more or fewer, in another dtype."""


def _evaluated(
    program: Program, call: Call, env: Mapping[str, torch.Tensor], *, is_wide: bool
) -> tuple[torch.Tensor, ...]:
    """The call's results; an extern call that does not take float64 runs in its own dtypes."""
    try:
        if not (is_wide and call.op in _READS_BITS):
            return evaluate_call(call, env, is_wide=is_wide)
    except Exception:  # an overload of a library may raise anything
        if not (is_wide and call.is_extern):
            raise
    native = {name: env[name].to(torch_dtype(program.type_of(name).dtype)) for name in call.refs()}
    return tuple(map(_widened, evaluate_call(call, {**env, **native})))


def evaluate_call(
    call: Call, env: Mapping[str, torch.Tensor], *, is_wide: bool = False
) -> tuple[torch.Tensor, ...]:
    """The call's results on the tensors that `env` names.

    Args:
        is_wide: floating tensors in `env` are float64, and results are to be.
    """
    if is_wide and call.is_random:
        return _wide_random(call, env)
    rank = call.types[0].rank
    device = next((t.device for t in env.values()), torch.device("cpu"))

    def value_of(name: str, value: Any) -> Any:
        plain = map_refs(value, lambda ref: env[ref.name])
        attribute = attribute_value(name, plain, rank)
        return (
            _wide_dtype(attribute) if is_wide and isinstance(attribute, torch.dtype) else attribute
        )

    if call.is_extern:
        values = {name: value_of(name, value) for name, value in call.args}
        results = extern.evaluate(call.op, values, rank, device)
    else:
        by_position, by_keyword = spelled_args(call)
        keywords = {name: value_of(name, value) for name, value in by_keyword}
        if call.makes_of_nothing:
            keywords["device"] = device
        returned = _callable(call.operator.call)(
            *(value_of(name, value) for name, value in by_position), **keywords
        )
        results = tuple(returned) if isinstance(returned, list | tuple) else (returned,)
    return tuple(map(_widened, results)) if is_wide else results


def _wide_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_wide_dtype(tensor.dtype))


@cache
def _callable(call: str) -> Any:
    """The PyTorch callable that an operator prints as."""
    first, *rest = call.split(".")
    part_of_torch: Any = torch.nn.functional if first == "F" else torch
    for part in rest:
        part_of_torch = getattr(part_of_torch, part)
    return part_of_torch


def _wide_random(call: Call, env: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """A random call in float64 with the draws of its native dtype.

    Dropout of ones tells which elements stay; anything else runs in the native dtype.
    """
    native = torch_dtype(call.types[0].dtype)
    is_dropout = call.op.removeprefix("aten.").startswith(("dropout", "native_dropout"))
    narrow = {
        name: torch.ones_like(env[name], dtype=native) if is_dropout else env[name].to(native)
        for name in call.refs()
        if env[name].is_floating_point() and native.is_floating_point
    }
    # The generator draws other numbers for float64. Only a run in the native dtype makes the mask
    # that the native program makes with the same seed.
    results = evaluate_call(call, {**env, **narrow})
    if not is_dropout:
        return tuple(map(_widened, results))
    arguments = (
        dict(call.args)
        if call.is_extern
        else {p.name: call.arg(p.name) for p in call.operator.params}
    )
    trains = arguments.get("training", arguments.get("train", True))
    values = env[next(call.refs())]
    p = float(arguments["p"])
    if trains is not False and p > 0:  # None means training too
        values = torch.where(results[0] != 0, values / (1 - p) if p < 1 else 0.0, 0.0)
    return (values, *results[1:])
