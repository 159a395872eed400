"""Maps places in an answer's text to tokens: where the text of each token ends."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def ends_of(tokens: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """How many characters of an answer's text there are after each of its n tokens: (n,) ascending.

    Tokens are decoded one by one. A token may be a part of one character and have no text alone. If
    so, every prefix of the answer is decoded, which takes n times as long.
    """

    def decoded(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), skip_special_tokens=True))

    pieces = [decoded([token]) for token in tokens]
    if "".join(pieces) == decoded(tokens):
        return list(accumulate(map(len, pieces)))
    return [len(decoded(tokens[:number])) for number in range(1, len(tokens) + 1)]
