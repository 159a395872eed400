"""Every reason code is explained, once, and the docs show it."""

from pathlib import Path

from kernelwright.core.reasons import REASONS, markdown
from kernelwright.core.verdict import Code

DOCS = Path(__file__).parents[2] / "docs" / "verifier.md"


def test_every_code_has_a_meaning_and_a_remedy():
    assert REASONS.keys() == set(Code)
    assert all(reason.meaning and reason.remedy for reason in REASONS.values())


def test_the_docs_hold_the_table_as_it_is_generated():
    assert markdown() in DOCS.read_text()
