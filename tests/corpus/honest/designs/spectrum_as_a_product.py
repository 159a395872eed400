# what: cosines and sines are made inside, the sums are in double precision
# task: small_spectrum

import torch
import triton
import triton.language as tl


@triton.jit
def spectrum_kernel(x, spectrum, power, columns, bins, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    n, k = tl.arange(0, N)[:, None], tl.arange(0, K)
    values = tl.load(x + row * columns + n, n < columns, 0.0).to(tl.float64)
    turn = ((n * k) % columns).to(tl.float64) * (6.283185307179586 / columns)
    real = tl.sum(values * tl.cos(turn), 0)
    imaginary = -tl.sum(values * tl.sin(turn), 0)
    place = row * bins + k
    tl.store(spectrum + 2 * place, real.to(tl.float32), k < bins)
    tl.store(spectrum + 2 * place + 1, imaginary.to(tl.float32), k < bins)
    total = real * real + imaginary * imaginary
    tl.store(power + place, total.to(tl.float32), k < bins)


def fused_operator(x):
    rows, columns = x.shape
    if columns > 128:
        raise ValueError("made for rows of at most 128 values")
    bins = columns // 2 + 1
    spectrum = torch.empty((rows, bins), dtype=torch.complex64, device=x.device)
    power = torch.empty((rows, bins), device=x.device)
    spectrum_kernel[(rows,)](
        x.contiguous(),
        torch.view_as_real(spectrum),
        power,
        columns,
        bins,
        N=triton.next_power_of_2(columns),
        K=triton.next_power_of_2(bins),
    )
    return spectrum, power
