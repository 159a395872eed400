"""The physics floor: no kernel is faster than its bytes over the bandwidth and its flops over
the peak."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peak:
    """Vendor peaks of one GPU, dense."""

    bytes_per_s: float
    flops_per_s: dict[str, float]
    """By arithmetic: "bf16" (and fp16), "tf32", "tf32x3" (three products for one), "fp32"."""


PEAKS: dict[str, Peak] = {
    "H200": Peak(4.8e12, {"bf16": 989e12, "tf32": 495e12, "tf32x3": 165e12, "fp32": 67e12}),
    "H100": Peak(3.35e12, {"bf16": 989e12, "tf32": 495e12, "tf32x3": 165e12, "fp32": 67e12}),
    "A100": Peak(2.04e12, {"bf16": 312e12, "tf32": 156e12, "tf32x3": 52e12, "fp32": 19.5e12}),
}
"""Data sheets of the SXM parts, the fastest of each name, so that the floor is never too high."""


def peak_of(gpu_name: str) -> Peak | None:
    """Returns the peaks of the GPU with this device name; None where the GPU is not known."""
    return next((peak for key, peak in PEAKS.items() if key in gpu_name), None)


def floor_ms(
    gpu_name: str, num_bytes: int, num_flops: int, arithmetic: str = "bf16"
) -> float | None:
    """Returns the least time in ms to move `num_bytes` and do `num_flops`; None on an unknown GPU.

    The default arithmetic is the fastest one, because a candidate may choose it (the roofline
    model: Williams et al., 2009).
    """
    peak = peak_of(gpu_name)
    if peak is None:
        return None
    return 1e3 * max(num_bytes / peak.bytes_per_s, num_flops / peak.flops_per_s[arithmetic])
