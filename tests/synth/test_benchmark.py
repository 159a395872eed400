"""synthetic-v1: how it is drawn, and that what is shipped is that."""

from collections import Counter

import pytest

from kernelwright.ops.forms.registry import EXCLUDED
from kernelwright.ops.registry import operators
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_fingerprints, benchmark_plan, synthetic_v1


def test_the_plan_has_the_papers_layout():
    groups = benchmark_plan().groups
    levels = {group.level: group.num for group in groups if group.operator is None}
    assert levels == {1: 100, 2: 100, 5: 100, 20: 100}
    singles = {group.operator: (group.level, group.num) for group in groups if group.operator}
    assert singles == dict.fromkeys(operators().keys() - EXCLUDED.keys(), (1, 2))


@pytest.fixture(scope="module")
def shipped():
    return synthetic_v1() or pytest.skip("synthetic-v1 is not frozen yet")


def test_what_is_shipped_has_that_layout_and_no_program_twice(shipped):
    plan = benchmark_plan()
    found = Counter(line["drawn"]["group"] for line in shipped)
    for group in plan.groups:
        assert found[group.name] == group.num or (group.may_lack and found[group.name] < group.num)
    assert found.keys() <= {group.name for group in plan.groups}
    assert len(benchmark_fingerprints()) == len(shipped)


def test_texts_of_what_is_shipped_are_its_programs(shipped):
    for line in shipped[::7]:
        program = parse(line["text"])
        assert fingerprint(program) == line["fingerprint"]
        assert [call.op for call in program.calls] == [call["op"] for call in line["calls"]]
        assert len(program.calls) == line["level"]
