"""Where the text of an answer's tokens ends: from places in a text to tokens."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def ends_of(tokens: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """(n,) characters of an answer's text after each of its n tokens.

    Tokens are decoded one by one. Where a tokenizer's tokens are no texts of their own, as parts of
    one character, each beginning of the answer is decoded, which takes n times as long.
    """

    def decoded(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), skip_special_tokens=True))

    pieces = [decoded([token]) for token in tokens]
    if "".join(pieces) == decoded(tokens):
        return list(accumulate(map(len, pieces)))
    return [len(decoded(tokens[:number])) for number in range(1, len(tokens) + 1)]
