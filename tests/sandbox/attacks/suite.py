"""All attacks."""

from tests.sandbox.attacks import (
    forging,
    hosting,
    lasting,
    leaving,
    reaching,
    replacing,
)
from tests.sandbox.attacks.attack import ATTACKS, Attack

__all__ = ["ATTACKS", "of_grade"]

MODULES = (leaving, reaching, forging, hosting, replacing, lasting)
"""Importing them fills the table."""


def of_grade(grade: str) -> list[Attack]:
    """The attacks that are judged in this grade."""
    return [attack for attack in ATTACKS.values() if grade in attack.grades]
