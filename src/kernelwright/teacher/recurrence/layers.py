"""A program of one recurrent call: gates, states, sizes and the formulas of its cell."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernelwright.programs import extern
from kernelwright.programs.program import Program
from kernelwright.teacher.text.expressions import NotWritable

_MAX_HIDDEN = 4096
"""Longest state that a program holds as a vector."""

CELLS = {
    "aten.lstm.input": (
        "put_in, forget, update, put_out",
        (
            "c_next = tl.sigmoid(forget) * c + tl.sigmoid(put_in) * libdevice.tanh(update)",
            "h_next = tl.sigmoid(put_out) * libdevice.tanh(c_next)",
        ),
    ),
    "aten.gru.input": (
        "reset, keep, update",
        (
            "candidate = libdevice.tanh(update_in + tl.sigmoid(reset) * update)",
            # Equal to (1 - keep) * candidate + keep * h_own, with one product less.
            "h_next = candidate + tl.sigmoid(keep) * (h_own - candidate)",
        ),
    ),
    "aten.rnn_tanh.input": ("update", ("h_next = libdevice.tanh(update)",)),
    # PyTorch's ReLU passes NaN on; `tl.maximum` would drop it.
    "aten.rnn_relu.input": ("update", ("h_next = tl.where(update < 0, 0.0, update)",)),
}
"""Overload -> names of its gates in the order of the weights' rows, and lines from gates to states.

The formulas are those of `torch.nn.LSTM`, `torch.nn.GRU` and `torch.nn.RNN`.
"""


@dataclass(frozen=True, slots=True)
class Alone:
    """A walk in which a program brings a sample of the batch through all steps."""

    weights: int
    """Elements of a gate's weights that it loads at a time."""
    num_warps: int


@dataclass(frozen=True, slots=True)
class Together:
    """A walk in which programs have a part of the state each (`recurrence.together`)."""

    programs: int
    """The most programs of all groups of samples together; all of them run at once."""
    num_warps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentSchedule:
    """The choices of both kernels of a recurrent layer."""

    product: tuple[int, int, int, int]
    """BLOCK_M, BLOCK_N, BLOCK_K, num_warps."""
    precision: str
    walk: Alone | Together


class Layers:
    """A program of one recurrent call, as its kernels see it."""

    def __init__(self, program: Program) -> None:
        """Reads the program.

        Raises:
            NotWritable: the program is not one recurrent call, or the call is a variant that has
                no kernel here: projected states, dropout, float64, mixed dtypes, wide states.
        """
        if len(program.calls) != 1 or program.calls[0].op not in CELLS:
            raise NotWritable("not one recurrent call")
        self.program, self.call = program, program.calls[0]
        self.args: dict[str, Any] = dict(self.call.args)
        # An LSTM has a tuple of two states, h and c; other cells have one tensor.
        states = self.args["hx"]
        self.states = tuple(
            ref.name for ref in (states if isinstance(states, tuple) else (states,))
        )
        self.weights = tuple(ref.name for ref in self.args["params"])
        self.directions = 2 if self.args["bidirectional"] else 1
        self.hidden = program.type_of(self.states[0]).shape[-1]
        self._check()

    def _check(self) -> None:
        """Raises NotWritable for variants that have no kernel here."""
        # A cell has weights for input and state, and two biases; a projection would be one more.
        of_a_cell = len(self.weights) // (self.args["num_layers"] * self.directions)
        if of_a_cell != (4 if self.args["has_biases"] else 2):
            raise NotWritable("states are projected")
        if extern.is_random(self.call.op, self.args):
            raise NotWritable("dropout between layers")
        dtypes = {self.program.type_of(name).dtype for name in self.call.refs()}
        if len(dtypes) != 1 or "float64" in dtypes or self.hidden > _MAX_HIDDEN:
            raise NotWritable(f"states of {self.hidden} elements of {', '.join(sorted(dtypes))}")

    @property
    def name(self) -> str:
        """ "lstm", "gru", "rnn_tanh" or "rnn_relu"."""
        return self.call.op.split(".")[1]

    @property
    def gates(self) -> list[str]:
        """Names of the gates, in the order of the weights' rows."""
        return CELLS[self.call.op][0].split(", ")

    @property
    def kept(self) -> str:
        """Letters of the states: "h", the output, and for an LSTM also "c"."""
        return "hc"[: len(self.states)]

    @property
    def has_biases(self) -> bool:
        return bool(self.args["has_biases"])

    @cached_property
    def dtype(self) -> str:
        """The dtype of all tensors of the call."""
        return self.program.type_of(self.states[0]).dtype
