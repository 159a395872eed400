"""The embedded model's tokenizer: byte-level BPE trained on requests and answers.

There are two kinds of tokenizers (`Longest`). In the first, a token is at most a line, so the lines
of every kernel take few tokens. In the second, a token is at most a word with the characters before
it, so a name always has the same tokens. In both, each digit is a token, so a size has the tokens
of its digits. The marks of plan and code are single tokens. Decoding gives back any text exactly.
Each token has a known place in the text, so tokens of a plan can have a reward of their own.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from kernelwright.policy.answer import CODE_BEGIN, CODE_END, PLAN_BEGIN, PLAN_END

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD, END, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"
MARKS = (PLAN_BEGIN, PLAN_END, CODE_BEGIN, CODE_END)
"""Marks that are single tokens. Decoding keeps them in the text."""
NUM_BYTES = 256
_ANSWER = "ANSWER"


class Longest(StrEnum):
    """The longest text that a token holds."""

    LINE = "line"
    """A line. Lines repeat from answer to answer, so texts have half as many tokens as with words
    (docs/LOG.md)."""
    WORD = "word"
    """A word with the punctuation before it."""


_PIECES = {Longest.LINE: r"[^\n]*\n", Longest.WORD: r"[^\w\n]*\w+|[^\w\n]+|\n"}

# The template drops system messages, which explain the form of answers to other models.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'user' %}" + USER + "{{ message.content }}"
    "{% elif message.role == 'assistant' %}" + ASSISTANT + "{% generation %}"
    "{{ message.content }}" + END + "{% endgeneration %}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


def train_tokenizer(
    texts: Iterable[str], *, vocabulary: int, max_length: int, longest: Longest = Longest.LINE
) -> "PreTrainedTokenizerFast":
    """Train a tokenizer on texts; it is in Hugging Face's layout, with the chat template.

    Args:
        vocabulary: the number of tokens. The tokenizer has fewer tokens if the texts have too few
            repeated pairs to merge.
        longest: the longest text of a token.
        max_length: the most tokens of the model. Longer texts give a warning.

    Raises:
        ValueError: the vocabulary has no room for bytes and marks.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = (PAD, END, USER, ASSISTANT)
    least = len(special) + len(MARKS) + NUM_BYTES
    if vocabulary < least:
        raise ValueError(f"{vocabulary} tokens have no room for bytes and marks: {least}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex(_PIECES[longest]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # All 256 bytes are in the alphabet, so that any text can be encoded and comes back.
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(MARKS),
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_without_marks(texts), trainer)
    # Not as special tokens: decoding drops these, but marks are a part of the answer.
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def end_tokens(tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """The tokens that end an answer: the tokenizer's own end, and the special token that its chat
    template puts after answers. For some models the two differ."""
    ends = {tokenizer.eos_token_id} - {None}
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _ANSWER}]
        text = str(tokenizer.apply_chat_template(chat, tokenize=False))
        _, begin, behind = text.rpartition(_ANSWER)
        tokens = tokenizer.encode(behind.lstrip(), add_special_tokens=False) if begin else []
        added = tokenizer.added_tokens_decoder
        ends |= {token for token in tokens[:1] if token in added and added[token].special}
    return sorted(ends)


def _without_marks(texts: Iterable[str]) -> Iterable[str]:
    """The texts with a newline in place of each mark. Marks are single tokens, so merges of their
    characters would be wasted."""
    for text in texts:
        for mark in MARKS:
            text = text.replace(mark, "\n")
        yield text
