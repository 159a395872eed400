"""The surroundings of a call: watched, or as in a user's process.

A candidate that recognises the judge could be correct there alone. So calls differ in grad and
inference mode, threads, clocks, storage offsets, dispatch modes and the order of programs.
"""

from dataclasses import asdict, dataclass
from typing import Any, Self

MAX_THREADS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """The surroundings of one call."""

    is_watched: bool = True
    """Operators are observed; fresh memory is poisoned and guarded. False: only launches are
    counted, and operators below Python."""
    has_grad: bool = False
    """Grad mode is on, as it is by default."""
    is_inference: bool = False
    """The call runs in inference mode, and floating-point inputs require gradients, as the
    parameters of a model do."""
    num_threads: int = 1
    """The number of threads of PyTorch's operators on the CPU."""
    has_offsets: bool = False
    """Inputs do not begin at the start of their storages."""
    clock_s: int = 0
    """Seconds by which all clocks are ahead."""
    keeps_objects: bool = False
    """Inputs are the tensor objects of the previous call, with new contents."""
    is_same: bool = False
    """Inputs with equal values are one tensor object."""
    traces_memory: bool = False
    """Memory is compared around each operator and launch, to see other writes. This takes time."""
    compiles: bool = False
    """Functions that the candidate wraps in `torch.compile` are compiled. False: the wrapped
    function is called, so that observers see each operator and each launch."""
    turn: int | None = None
    """The number of the configuration that autotuners use; None: they choose."""
    order_seed: int = 0
    """Draws the order in which the interpreter runs the programs of a launch; 0: its own order."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


WATCHED = Manner()
