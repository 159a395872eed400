"""`torch.compile(model, backend="kernelwright")`: verified kernels behind the line that users write
already (docs/compile.md)."""


def wait(timeout_s: float | None = None) -> bool:
    """Wait for all searches in the background.

    Args:
        timeout_s: seconds to wait at most; None: as long as the searches take.

    Returns:
        Whether all of them have ended.
    """
    from kernelwright.compile.searching import background  # loads torch

    return background.wait(timeout_s)
