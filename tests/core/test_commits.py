"""The commits at which records were measured."""

from kernelwright.core.commits import distinct, named, short, with_commits


def test_a_record_has_its_own_commit_or_that_of_the_last_environment():
    lines = [
        {"record": "case"},
        {"record": "run", "environment": {"commit": "a"}},
        {"record": "case"},
        {"record": "case", "commit": "b"},
        {"record": "run", "environment": {"commit": None}},
        {"record": "case"},
    ]
    assert [commit for _, commit in with_commits(lines)] == ["", "a", "a", "b", "", ""]


def test_commits_are_shown_short_and_several_are_marked():
    assert short("0123456789ab-dirty") == "0123456-dirty"
    assert named([]) == ""
    assert named(["0123456789ab", "0123456"]) == "0123456", "one commit, written in two lengths"
    assert named(["", "a"]) == "mixed: unknown, a"
    assert distinct(["b+a", "a"]) == ["a", "b"]
