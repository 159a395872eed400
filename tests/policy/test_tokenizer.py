"""The tokenizer: nothing is lost, digits and marks stand alone, the mask covers the answer."""

import copy
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import answer_text
from kernelwright.policy.prompt import Request, request_text
from kernelwright.policy.tokenizer import (
    ASSISTANT,
    END,
    MARKS,
    USER,
    Longest,
    end_tokens,
    train_tokenizer,
)
from kernelwright.programs.build import Builder
from kernelwright.teacher.writer import write

SIZES = [(64, 256), (7, 33), (1024, 17), (3, 5, 9)]


def pair(op, shape):
    """(request, answer) of one operator."""
    builder = Builder()
    program = builder.program(builder.call(op, input=builder.input(TensorType(shape))))
    return request_text(Request(program=program)), answer_text(write(program, limit=1)[0])


PAIRS = [pair(op, shape) for op in ("relu", "exp", "gelu") for shape in SIZES]


@pytest.fixture(scope="module", params=list(Longest))
def tokenizer(request):
    texts = (text for each in PAIRS for text in each)
    return train_tokenizer(texts, vocabulary=512, max_length=1024, longest=request.param)


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_every_text_comes_back(tokenizer, text):
    assert tokenizer.decode(encode(tokenizer, text)) == text


def test_digits_and_marks_are_tokens_of_their_own(tokenizer):
    for size in ("1024", "33", "2147483647"):
        assert tokenizer.convert_ids_to_tokens(encode(tokenizer, size)) == list(size)
    for mark in MARKS:
        assert len(encode(tokenizer, mark)) == 1
        assert tokenizer.decode(encode(tokenizer, mark), skip_special_tokens=True) == mark


def test_what_it_was_trained_on_takes_fewer_tokens_than_characters(tokenizer):
    _, answer = PAIRS[0]
    assert len(encode(tokenizer, answer)) < len(answer) / 2
    assert len(tokenizer) <= 512


def test_each_token_knows_its_place(tokenizer):
    _, answer = PAIRS[0]
    found = tokenizer(answer, return_offsets_mapping=True, add_special_tokens=False)
    pieces = [answer[begin:end] for begin, end in found["offset_mapping"]]
    assert "".join(pieces) == answer
    assert tokenizer.convert_tokens_to_ids("<plan>") == found["input_ids"][0]


def test_a_chat_is_the_request_and_the_answer_and_the_mask_covers_the_answer(tokenizer):
    request, answer = PAIRS[0]
    chat = [
        {"role": "system", "content": "not for this model"},
        {"role": "user", "content": request},
        {"role": "assistant", "content": answer},
    ]
    made = tokenizer.apply_chat_template(
        chat, return_dict=True, return_assistant_tokens_mask=True, tokenize=True
    )
    ids, mask = made["input_ids"], made["assistant_masks"]
    assert tokenizer.decode(ids) == f"{USER}{request}{ASSISTANT}{answer}{END}"
    assert tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m]) == f"{answer}{END}"
    asked = tokenizer.apply_chat_template(chat[:2], add_generation_prompt=True, tokenize=False)
    assert asked == f"{USER}{request}{ASSISTANT}"


@pytest.mark.parametrize(
    ("behind", "ends"),
    [(END, [END]), (USER, [END, USER]), (f"\n{USER}\n", [END, USER]), ("", [END]), ("!", [END])],
)
def test_answers_end_with_the_template_s_mark_too(tokenizer, behind, ends):
    other = copy.deepcopy(tokenizer)
    other.chat_template = "{% for m in messages %}{{ m.content }}" + behind + "{% endfor %}"
    assert end_tokens(other) == sorted(other.convert_tokens_to_ids(ends))


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in PAIRS[0]:
        assert encode(loaded, text) == encode(tokenizer, text)
    assert loaded.chat_template == tokenizer.chat_template
    assert (loaded.eos_token, loaded.pad_token) == (tokenizer.eos_token, tokenizer.pad_token)
    assert loaded.model_max_length == 1024


def test_a_vocabulary_without_room_for_bytes_is_refused():
    with pytest.raises(ValueError, match="no room"):
        train_tokenizer(["x"], vocabulary=200, max_length=16)


def test_lines_that_repeat_are_single_tokens_and_no_token_goes_on_in_another_line():
    texts = [text for each in PAIRS for text in each]
    tokenizer = train_tokenizer(texts, vocabulary=2048, max_length=1024)
    line = "import triton.language as tl\n"
    assert line in PAIRS[0][1]
    assert len(encode(tokenizer, line)) == 1
    tokens = [tokenizer.decode([token]) for token in tokenizer.get_vocab().values()]
    assert line in tokens
    assert all("\n" not in token[:-1] for token in tokens)


def test_where_tokens_are_words_none_holds_two():
    texts = [text for each in PAIRS for text in each]
    tokenizer = train_tokenizer(texts, vocabulary=2048, max_length=1024, longest=Longest.WORD)
    tokens = [tokenizer.decode([token]) for token in tokenizer.get_vocab().values()]
    assert "triton" in tokens or " triton" in tokens
    words = (re.findall(r"\w+", token) for token in tokens if token not in MARKS)
    assert all(len(found) <= 1 for found in words)
