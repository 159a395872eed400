"""The backend of `torch.compile(model, backend="kernelwright")`. Inductor's code runs first;
verified kernels replace the code where they are faster (docs/compile.md).

`backend` is the entry. `graph` reads Dynamo's graphs as programs, and `searching` searches kernels
for them in other processes. `served` exchanges the code of a graph. `training` has the graphs of
gradients.
"""


def wait(timeout_s: float | None = None) -> bool:
    """Wait for all searches in the background.

    Args:
        timeout_s: seconds to wait at most; None: as long as the searches take.

    Returns:
        Whether all of them have ended.
    """
    from kernelwright.compile.searching import background  # loads torch

    return background.wait(timeout_s)
