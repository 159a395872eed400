"""Any text has a syntax tree or is refused with a line, in bounded time."""

import ast
import warnings
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.syntax import MAX_SOURCE, MAX_TOKENS, syntax_tree


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nx = '\ud800'\n", 2, "surrogate"),
        ("x = '\x00'\n", 1, "null"),
        ("x = 1\ndef f(:\n", 2, "invalid syntax"),
        ("#" * (MAX_SOURCE + 1), 1, "characters"),
        ("-" * (MAX_TOKENS + 1), 1, "words and signs"),
        ("-" * MAX_TOKENS, 1, "nested too deeply"),
        ("x = 1" + "0" * 5_000, 1, "limit"),
    ],
    ids=["surrogate", "nul", "syntax", "long", "words", "deep", "number"],
)
def test_a_refusal_names_the_line(text, line, message):
    with pytest.raises(SyntaxError, match=message) as refused:
        syntax_tree(text)
    assert refused.value.lineno == line


def test_long_texts_of_few_words_are_read():
    text = f"x = '{'a' * (MAX_SOURCE - 100)}'\n"
    assert len(text) > MAX_TOKENS
    assert len(syntax_tree(text).body) == 1


@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_read_or_refused(text):
    with suppress(SyntaxError):
        assert isinstance(syntax_tree(text), ast.Module)


def test_warnings_about_a_text_are_not_shown(recwarn):
    warnings.simplefilter("always")
    syntax_tree("".join(f"x = {number}if y else z\n" for number in range(100)))
    assert not recwarn.list
