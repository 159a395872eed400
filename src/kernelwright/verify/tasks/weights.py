"""Parameters and statistics that a judged module starts from."""

from collections.abc import Iterator

import torch

from kernelwright.verify.tasks.alike import permuted_along

SMALL, SMALL_DRAWS = 16, 3
"""The most elements of a small parameter; the number of redrawn sets for a module with one."""
_SHUTS_OUT = 1e4
"""The least number that shuts an element out, in a mask that is added to scores."""
_STATISTICS = ("_mean", "_var")
"""Ends of the names of running statistics."""


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
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, tensor in _drawn(module):
            if not tensor.numel():
                continue
            value = float(tensor.flatten()[0])
            if bool((tensor == value).all()):
                span = 0.2 * torch.rand(tensor.shape, generator=generator) - 0.1
                # Zero has no scale, so a span of 0.1 is added there.
                tensor.add_((span * (abs(value) or 1.0)).to(tensor))


def move_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Multiplies parameters and running statistics by 0.9 to 1.1, in place, and returns the
    module."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, tensor in _drawn(module):
            share = torch.rand(tensor.shape, generator=generator)
            tensor.mul_((0.9 + 0.2 * share).to(tensor))
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
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in _drawn(module):
            if tensor.numel():
                may_flip = not keeps_signs and not name.endswith("_var")
                redrawn = _redrawn(tensor, generator, may_flip=may_flip)
                tensor.copy_(scale * redrawn if tensor.ndim < 2 and may_flip else redrawn)
        for table in _tables(module):
            factor = 0.8 + 0.45 * torch.rand(table.shape, generator=generator)
            if not table.any():  # a zero point
                table.add_(0.5 * (factor - 0.7).to(table))
                continue
            moved = torch.where(table.isfinite(), table * factor.to(table), table)
            # Boundaries of buckets are searched: out of order they would mean nothing.
            is_sorted = table.ndim == 1 and bool((table[1:] >= table[:-1]).all())
            table.copy_(moved.sort().values if is_sorted else moved)
        for codes in _quantised(module):
            # A permutation keeps the codes in the range for which their scales were made.
            order = torch.randperm(codes.numel(), generator=generator).to(codes.device)
            codes.copy_(codes.flatten()[order].view(codes.shape))
    return module


def move_part_of_weights(module: torch.nn.Module, seed: int, number: int) -> torch.nn.Module:
    """Multiplies about half of the values of one parameter or statistic by 1.5, in place; zeros
    become 0.3. Results that a candidate keeps under another parameter, or under one value of this
    one, are stale then.

    Args:
        number: number of the parameter, modulo how many there are.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [tensor for _, tensor in _drawn(module) if tensor.numel()]
    if drawn:
        with torch.no_grad():
            tensor = drawn[number % len(drawn)]
            is_moved = torch.rand(tensor.shape, generator=generator) < 0.5
            # A parameter of one element is drawn not to move in every second case.
            is_moved |= not bool(is_moved.any())
            moved = torch.where(tensor == 0, 0.3, 1.5 * tensor).to(tensor)
            tensor.copy_(torch.where(is_moved.to(tensor.device), moved, tensor))
    return module


def permute_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Exchanges the values of each parameter along its last dimension, in place. Results that a
    candidate keeps under sums of parameters are stale then."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(permuted_along(parameter, seed, -1))
    return module


def _redrawn(tensor: torch.Tensor, generator: torch.Generator, *, may_flip: bool) -> torch.Tensor:
    """Returns the values in another order, with other magnitudes, and half of the signs flipped if
    `may_flip`."""
    values = tensor.flatten().cpu().double()
    values = values[torch.randperm(values.numel(), generator=generator)]
    rms = float(values.square().mean().sqrt()) or 1.0
    if tensor.ndim < 2:  # a bias of zeros must matter too
        # Vectors are biases and slopes, which next to large activations would hardly show.
        rms = max(rms, 0.3)
        values *= rms / (float(values.square().mean().sqrt()) or 1.0)
    # A weight of 0 would hide its input, so zeros become numbers of a tenth of the scale.
    small = 0.1 * rms * (1 + torch.rand(values.shape, generator=generator).double())
    values = torch.where(values == 0, small, values)
    values *= 0.5 + 1.5 * torch.rand(values.shape, generator=generator).double()
    if may_flip:
        values *= torch.randint(0, 2, values.shape, generator=generator) * 2 - 1
    return values.view(tensor.shape).to(tensor)


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
