"""Parameters and statistics that a judged module starts from."""

import math
from collections.abc import Iterator, Sequence

import torch

from kernelwright.core.seed import derive
from kernelwright.verify.tasks.alike import LARGE, permuted, permuted_along

PART = 1 << 24
"""The elements of a large tensor that get random numbers at once."""
SMALL, SMALL_DRAWS = 16, 3
"""The most elements of a small parameter; the number of redrawn sets for a module with one."""
_SHUTS_OUT = 1e4
"""The least number that shuts an element out, in a mask that is added to scores."""
_STATISTICS = ("_mean", "_var")
"""Ends of the names of running statistics."""


class _Draws:
    """Random numbers for tensors. Numbers for a large tensor are drawn on its own device."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def rand(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns fp32 numbers from [0, 1) in the tensor's shape, on its device."""
        drawn_on = tensor.device if tensor.numel() > LARGE else torch.device("cpu")
        if drawn_on not in self._generators:
            self._generators[drawn_on] = torch.Generator(drawn_on).manual_seed(self._seed)
        generator = self._generators[drawn_on]
        return torch.rand(tensor.shape, generator=generator, device=drawn_on).to(tensor.device)


def _parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Returns a small tensor alone, or views that divide a large one along its longest dimension:
    random numbers for all of it at once would need as much memory again."""
    if tensor.numel() <= PART:
        return (tensor,)
    longest = max(range(tensor.ndim), key=lambda dim: tensor.shape[dim])
    size = tensor.shape[longest]
    return torch.split(tensor, max(PART * size // tensor.numel(), 1), dim=longest)


def entries_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers by state_dict name; tied ones under each of their names."""
    entries = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return {name: tensor.detach() for name, tensor in entries}


def redraw_constants(module: torch.nn.Module, seed: int) -> None:
    """Moves parameters and running statistics that hold a single value by up to 10%, or by 0.1 off
    zero.

    A kernel could leave out an affine weight of ones and a bias of zeros, and would still be
    correct.
    """
    draws = _Draws(seed)
    with torch.no_grad():
        for _, tensor in _drawn(module):
            if not tensor.numel():
                continue
            value = float(tensor.flatten()[0])
            if bool((tensor == value).all()):
                for part in _parts(tensor):
                    span = 0.2 * draws.rand(part) - 0.1
                    # Zero has no scale, so a span of 0.1 is added there.
                    part.add_((span * (abs(value) or 1.0)).to(part))


def move_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Multiplies parameters and running statistics by 0.9 to 1.1, in place, and returns the
    module."""
    draws = _Draws(seed)
    with torch.no_grad():
        for _, tensor in _drawn(module):
            for part in _parts(tensor):
                part.mul_((0.9 + 0.2 * draws.rand(part)).to(part))
    return module


def redraw_weights(
    module: torch.nn.Module, seed: int, *, keeps_signs: bool = False, scale: float = 1.0
) -> torch.nn.Module:
    """Gives the module other weights of the same sizes and about the same scale, in place, and
    returns it.

    Parameters get their values in another order, times 0.5 to 2, half of them with the other sign;
    zeros become small numbers. Running statistics change alike; variances keep their sign. Tables
    (other persistent floating-point buffers, without masks) are multiplied by 0.8 to 1.25. Sorted
    tables stay sorted; zeros and infinities among other values stay. Buffers of 8-bit integers get
    another order.

    Args:
        keeps_signs: parameters keep their signs, and `scale` has no effect.
        scale: a factor of vectors and scalars, such as biases and slopes. It may be negative.
    """
    draws = _Draws(seed)
    with torch.no_grad():
        for name, tensor in _drawn(module):
            if tensor.numel():
                may_flip = not keeps_signs and not name.endswith("_var")
                redrawn = _redrawn(tensor, derive(seed, "order", name), draws, may_flip=may_flip)
                tensor.copy_(scale * redrawn if tensor.ndim < 2 and may_flip else redrawn)
        for table in _tables(module):
            factor = (0.8 + 0.45 * draws.rand(table)).to(table)
            if not table.any():  # a zero point
                table.add_(0.5 * (factor - 0.7))
                continue
            moved = torch.where(table.isfinite(), table * factor, table)
            # Boundaries of buckets are searched: out of order they would mean nothing.
            is_sorted = table.ndim == 1 and bool((table[1:] >= table[:-1]).all())
            table.copy_(moved.sort().values if is_sorted else moved)
        for number, codes in enumerate(_quantised(module)):
            # A permutation keeps the codes in the range for which their scales were made.
            codes.copy_(permuted(codes, derive(seed, "codes", number)))
    return module


def move_part_of_weights(module: torch.nn.Module, seed: int, number: int) -> torch.nn.Module:
    """Multiplies about half of the values of one parameter or statistic by 1.5, in place; zeros
    become 0.3. Results that a candidate keeps under another parameter, or under one value of this
    one, are stale then.

    Args:
        number: number of the parameter, modulo how many there are.
    """
    draws = _Draws(seed)
    drawn = [tensor for _, tensor in _drawn(module) if tensor.numel()]
    if drawn:
        with torch.no_grad():
            for part in _parts(drawn[number % len(drawn)]):
                is_moved = draws.rand(part) < 0.5
                # A parameter of one element is drawn not to move in every second case.
                is_moved |= not bool(is_moved.any())
                moved = torch.where(part == 0, 0.3, 1.5 * part).to(part)
                part.copy_(torch.where(is_moved, moved, part))
    return module


def permute_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Exchanges the values of each parameter along its last dimension, in place. Results that a
    candidate keeps under sums of parameters are stale then."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(permuted_along(parameter, seed, -1))
    return module


def _redrawn(
    tensor: torch.Tensor, order_seed: int, draws: _Draws, *, may_flip: bool
) -> torch.Tensor:
    """Returns the values in another order, in fp32 at least, with other magnitudes, and half of the
    signs flipped if `may_flip`."""
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    values: torch.Tensor = permuted(tensor, order_seed).to(wide)
    rms = _rms(values) or 1.0
    if values.ndim < 2:  # a bias of zeros must matter too
        # Vectors are biases and slopes, which next to large activations would hardly show.
        wanted = max(rms, 0.3)
        values, rms = values * (wanted / rms), wanted
    for part in _parts(values):
        # A weight of 0 would hide its input, so zeros become numbers of a tenth of the scale.
        small = 0.1 * rms * (1 + draws.rand(part))
        redrawn = torch.where(part == 0, small.to(part), part)
        redrawn *= 0.5 + 1.5 * draws.rand(part)
        if may_flip:
            redrawn *= torch.where(draws.rand(part) < 0.5, -1.0, 1.0)
        part.copy_(redrawn)
    return values


def _rms(values: torch.Tensor) -> float:
    """Returns the root of the mean square, without a copy of the values. In fp32 the squares of
    1e30 and of 1e-30 would be infinite and zero."""
    norm = torch.linalg.vector_norm(values, dtype=torch.float64)
    return float(norm) / math.sqrt(values.numel())


def num_draws(module: torch.nn.Module) -> int:
    """Returns the number of redrawn sets of weights. A small parameter needs several: in one set it
    may hardly matter by chance."""
    has_small = any(0 < tensor.numel() <= SMALL for _, tensor in _drawn(module))
    return SMALL_DRAWS if has_small else 1


def _drawn(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields name and tensor of floating-point parameters and running statistics. A complex tensor
    becomes a view of its real and imaginary parts."""
    statistics = [(n, b) for n, b in module.named_buffers() if n.endswith(_STATISTICS)]
    for name, tensor in (*module.named_parameters(), *statistics):
        if tensor.is_floating_point():
            yield name, tensor
        elif tensor.is_complex():
            yield name, torch.view_as_real(tensor)


def _tables(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yields floating-point buffers of the state_dict, without statistics and masks. A buffer with
    one value is a scale, a zero point or a temperature."""
    persistent = module.state_dict().keys()
    for name, buffer in module.named_buffers():
        if name not in persistent or name.endswith(_STATISTICS):
            continue
        if buffer.is_floating_point() and not _is_mask(buffer):
            yield buffer


def _is_mask(table: torch.Tensor) -> bool:
    """Whether a buffer holds two values, of which one shuts elements out: zeros and ones, or zeros
    and large or infinite numbers."""
    values = torch.unique(table).abs()
    is_choice = bool(((values == 0) | (values == 1)).all())
    return values.numel() == 2 and (is_choice or float(values.max()) >= _SHUTS_OUT)


def _quantised(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yields buffers of the state_dict with 8-bit integers, such as quantised weights."""
    persistent = module.state_dict().keys()
    for name, buffer in module.named_buffers():
        if name in persistent and buffer.dtype in (torch.int8, torch.uint8):
            yield buffer
