"""Hostile candidates, seen from outside: nothing escapes, and the next candidate is unhurt.

What each attempts is said in `tests/sandbox/attacks`. All are judged once, before the first test:
those of a grade in one process, the two grades side by side.
"""

import pytest

from tests.sandbox.attacks.attack import BOTH_GRADES
from tests.sandbox.attacks.suite import ATTACKS, of_grade
from tests.sandbox.attacks.supervising import all_seen

pytestmark = pytest.mark.timeout(900)  # of the first test, which waits for all attacks

CASES = [
    pytest.param(grade, attack.name, id=f"{attack.kind}-{attack.name}-{grade}")
    for grade in BOTH_GRADES
    for attack in of_grade(grade)
]
RECYCLED = [
    pytest.param(attack.name, id=f"{attack.kind}-{attack.name}") for attack in of_grade("recycled")
]


@pytest.fixture(scope="module")
def seen():
    """What is seen of each attack, by grade and name."""
    names = {grade: [attack.name for attack in of_grade(grade)] for grade in BOTH_GRADES}
    found = all_seen(names)
    return {(each["grade"], each["name"]): each for each in found}


@pytest.mark.parametrize(("grade", "name"), CASES)
def test_an_attack_has_no_effect_outside(seen, grade, name):
    assert seen[grade, name]["outside"] == [], ATTACKS[name].tries


@pytest.mark.parametrize(("grade", "name"), CASES)
def test_an_attack_finds_what_it_takes_hold_of(seen, grade, name):
    """Otherwise the attack tests nothing, and needs another way to its aim."""
    assert not seen[grade, name]["is_void"], seen[grade, name]["message"]


@pytest.mark.parametrize("name", RECYCLED)
def test_candidates_after_an_attack_are_judged_as_ever(seen, name):
    assert seen["recycled", name]["after"] == [], ATTACKS[name].tries


def test_every_attack_says_what_it_tries_and_what_would_be_seen():
    silent = [each.name for each in ATTACKS.values() if not each.tries or not each.outside]
    assert silent == []
