"""Texts of candidates on their way to a terminal and to a record."""

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.text import encodable, printable


def test_control_codes_and_surrogates_are_escaped():
    assert printable("\x1b]0;title\x07", 100) == "\\x1b]0;title\\x07"
    assert printable("a\ud800b", 100) == "a\\ud800b"
    assert printable("left \u202e right", 100) == "left \\u202e right"


def test_ends_of_lines_and_letters_stay():
    assert printable("größe\n\t数", 100) == "größe\n\t数"


@given(st.text(alphabet=st.characters(codec=None), max_size=40))
def test_any_text_can_be_printed_and_encoded(text: str):
    cleaned = printable(text, 20)
    cleaned.encode("utf-8")
    assert len(cleaned) <= 20 * len("\\U0010ffff")
    assert "\x1b" not in cleaned
    assert "\x9b" not in cleaned


@given(st.text(alphabet=st.characters(codec=None), max_size=40))
def test_encodable_text_differs_in_lone_surrogates_only(text: str):
    cleaned = encodable(text)
    cleaned.encode("utf-8")
    assert len(cleaned) == len(text)
    for before, after in zip(text, cleaned, strict=True):
        assert before == after or (after == "\ufffd" and "\ud800" <= before <= "\udfff")
