"""Rows in decoding: the state of rows on the device, and the state of a row on the host."""

from dataclasses import dataclass, fields

import torch


@dataclass(slots=True)
class Waiting:
    """The state of a row on the host, before and while the row is decoded."""

    index: int
    """The place of the row among the prompts of the call."""
    prompt: list[int]
    seed: int
    limit: int
    length: int = 0
    """The most tokens that the row's slots can have now. The number still grows after the row is
    done, until the host notices."""

    def __post_init__(self) -> None:
        self.length = len(self.prompt)


@dataclass(slots=True)
class Rows:
    """The state of all rows on the device. The first dimension of all tensors is the row."""

    token: torch.Tensor
    """The last token, which the model has not read yet."""
    position: torch.Tensor
    """The position of `token`."""
    count: torch.Tensor
    """The number of written tokens."""
    limit: torch.Tensor
    done: torch.Tensor
    written: torch.Tensor
    """(rows, most tokens + 1): the written tokens. A row that is done still writes, into the column
    after its last token."""
    uniform: torch.Tensor
    """(rows, most tokens + 1): the random number for each token."""

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
