"""Rows in decoding: the state of each on the device, and the state that the host keeps."""

from dataclasses import dataclass, fields

import torch


@dataclass(slots=True)
class Waiting:
    """A row as the host knows it."""

    index: int
    """The place of the row among the prompts of the call."""
    prompt: list[int]
    seed: int
    limit: int
    length: int = 0
    """Tokens in its slots, at most; also after it is done."""

    def __post_init__(self) -> None:
        self.length = len(self.prompt)


@dataclass(slots=True)
class Rows:
    """Per row, on the device; the first dimension is the row."""

    token: torch.Tensor
    """The last one, not read by the model yet."""
    position: torch.Tensor
    """The position of `token`."""
    count: torch.Tensor
    """Tokens written."""
    limit: torch.Tensor
    done: torch.Tensor
    written: torch.Tensor
    """(rows, most tokens + 1): rows that are done write into the last column they reached."""
    uniform: torch.Tensor
    """As `written`: the number that each token is drawn by."""

    @classmethod
    def empty(cls, rows: int, tokens: int, device: torch.device) -> "Rows":
        """Rows that are done, with room for `tokens` written tokens each."""

        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros((rows, *shape), dtype=dtype, device=device)

        return cls(
            token=zeros(),
            position=zeros(),
            count=zeros(),
            limit=zeros(),
            done=torch.ones(rows, dtype=torch.bool, device=device),
            written=zeros(tokens + 1),
            uniform=zeros(tokens + 1, dtype=torch.float32),
        )

    def tensors(self) -> list[torch.Tensor]:
        return [getattr(self, field.name) for field in fields(self)]

    def first(self, rows: int) -> "Rows":
        """Views of the first rows; changing them changes these rows."""
        return Rows(*(tensor[:rows] for tensor in self.tensors()))

    def move(self, begin: torch.Tensor, end: torch.Tensor) -> None:
        """Copy rows `begin` into rows `end`, both (n,) int64."""
        for tensor in self.tensors():
            tensor[end] = tensor[begin]
