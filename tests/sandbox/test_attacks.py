"""Hostile candidates, seen from outside: nothing escapes, and the next candidate is unhurt.

Each attack in `tests/sandbox/attacks` says what it tries. Here a share of the attacks is judged, in
one process for each grade; `tools/attack_sandbox.py` judges all of them in both grades.
"""

import pytest

from tests.sandbox.attacks.attack import BOTH_GRADES
from tests.sandbox.attacks.suite import ATTACKS, of_grade
from tests.sandbox.attacks.supervising import all_seen

pytestmark = pytest.mark.timeout(900)  # of the first test, which waits for all attacks

SHARE = 8
"""One attack of so many is judged, and those that had an effect when they were written."""
ONCE_FREE = {
    "setuid_bit", "extended_attributes", "datagram_from_a_pair", "sibling_by_clone",
    "text_of_the_reference", "audit_hook",
}  # fmt: skip
CHOSEN = [name for number, name in enumerate(ATTACKS) if number % SHARE == 0 or name in ONCE_FREE]
NAMES = {
    grade: [attack.name for attack in of_grade(grade) if attack.name in CHOSEN]
    for grade in BOTH_GRADES
}


def case(name, *values):
    """One attack as a parameter of a test."""
    return pytest.param(*values, name, id="-".join((ATTACKS[name].kind, name, *values)))


CASES = [case(name, grade) for grade, names in NAMES.items() for name in names]


@pytest.fixture(scope="module")
def seen():
    """What is seen of each chosen attack, by grade and name."""
    return {(line["grade"], line["name"]): line for line in all_seen(NAMES)}


@pytest.mark.slow
@pytest.mark.parametrize(("grade", "name"), CASES)
def test_an_attack_has_no_effect_outside(seen, grade, name):
    assert seen[grade, name]["outside"] == [], ATTACKS[name].tries


@pytest.mark.parametrize(("grade", "name"), CASES)
def test_an_attack_finds_what_it_takes_hold_of(seen, grade, name):
    """Otherwise the attack tests nothing, and needs another way to its aim."""
    assert not seen[grade, name]["is_void"], seen[grade, name]["message"]


@pytest.mark.parametrize("name", [case(name) for name in NAMES["recycled"]])
def test_candidates_after_an_attack_are_judged_as_ever(seen, name):
    assert seen["recycled", name]["after"] == [], ATTACKS[name].tries


def test_every_attack_says_what_it_tries_and_what_would_be_seen():
    silent = [attack.name for attack in ATTACKS.values() if not attack.tries or not attack.outside]
    assert silent == []
