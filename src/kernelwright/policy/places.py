"""Maps places in an answer's text to tokens: where the text of each token ends."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def ends_of(tokens: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """For each of an answer's n tokens, the number of characters up to its end: (n,) ascending.

    Tokens are decoded one by one. But a token may be a part of a character, and then it has no text
    of its own. In this case every prefix of the answer is decoded, which takes n times as long.
    """

    def decoded(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), skip_special_tokens=True))

    pieces = [decoded([token]) for token in tokens]
    if "".join(pieces) == decoded(tokens):
        return list(accumulate(map(len, pieces)))
    return [len(decoded(tokens[:number])) for number in range(1, len(tokens) + 1)]
