"""A corpus through the judge, and another checker beside it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from record_kinds import faults_in

from kernelwright.bench.judge.corpus import CorpusPlan, is_right, run_corpus
from kernelwright.bench.judge.entries import read_corpus
from kernelwright.bench.judge.static_checker import CHECKER
from kernelwright.core import record
from kernelwright.core.errors import UsageError

CORPUS = Path(__file__).parents[1] / "corpus"
THEIRS = """
def validate_kernel_static(code, backend, precision):
    assert backend == "triton"
    errors = ["no sleeping"] if "sleep" in code else []
    warnings = ["torch"] if "zeros" in code else []
    return not errors, errors, warnings
"""


@pytest.fixture
def root(tmp_path):
    """Three files of the corpus: a cheat, an honest kernel, one that needs a GPU."""
    for name in (
        "cheats/zeros.py",
        "honest/plain.py",
        "honest/inline_assembly.py",
        "tasks/softmax.py",
        "tasks/relu.py",
    ):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((CORPUS / name).read_text())
    return tmp_path / "corpus"


@pytest.mark.slow
def test_every_file_the_device_can_judge_becomes_a_record(root, tmp_path):
    checkout = tmp_path / "checkout"
    (checkout / CHECKER).parent.mkdir(parents=True)
    (checkout / CHECKER).write_text(THEIRS)
    plan = CorpusPlan(root=root, out=tmp_path / "out.jsonl", device="cpu", kernelbench=checkout)
    said = []
    found = run_corpus(plan, said.append)
    assert [json.loads(line) for line in plan.out.read_text().splitlines()] == found
    assert faults_in(plan.out) == set()
    cases = {line["name"]: line for line in found if line["record"] == "corpus_case"}
    assert cases.keys() == {"zeros", "plain"}
    assert (cases["zeros"]["stage"], cases["zeros"]["code"]) == ("compare", "wrong_values")
    assert cases["zeros"]["exploit"] == "E09"
    assert cases["plain"]["accepted"]
    theirs = {line["name"]: line for line in found if line["record"] == "corpus_kernelbench"}
    assert theirs.keys() == {"zeros", "plain", "inline_assembly"}
    assert (theirs["zeros"]["strict"], theirs["zeros"]["warned"]) == (False, True)
    assert len(said) == 2


@pytest.mark.slow
def test_a_run_goes_on_where_the_time_ended_it(root, tmp_path):
    cheats = [root / "cheats" / f"zeros_{number}.py" for number in range(4)]
    for path in cheats:
        path.write_text((root / "cheats" / "zeros.py").read_text())
    plan = CorpusPlan(root=root, out=tmp_path / "out.jsonl", device="cpu", deadline_s=0.0)
    head, *judged_first = run_corpus(plan, print)
    assert head["cases"] == 6
    assert 0 < len(judged_first) < 6
    lines = list(record.read(plan.out))
    record.rewrite(plan.out, [lines[0] | {"environment": {"commit": "a" * 12}}, *lines[1:]])
    head, *cases = run_corpus(replace(plan, deadline_s=math.inf), print)
    assert head["environment"] == {"commit": "a" * 12}
    assert [case for case in cases if "commit" not in case] == judged_first, "not judged again"
    present = record.environment()["commit"]
    later = [case["commit"] for case in cases if "commit" in case]
    assert later == [present] * (6 - len(judged_first))
    names = [f"{case['kind']}/{case['name']}" for case in cases]
    assert names == sorted(names), "the order of the corpus"
    assert list(record.read(plan.out)) == [head, *cases]
    with pytest.raises(UsageError, match="begun with grade"):
        run_corpus(replace(plan, grade="recycled"), print)


def test_a_failure_of_ours_stops_no_cheat():
    cheat = {"kind": "cheats", "accepted": False, "code": "wrong_values"}
    honest = {"kind": "honest", "accepted": True, "code": "ok"}
    assert is_right(cheat)
    assert is_right(honest)
    assert not is_right(cheat | {"code": "infra"})
    assert not is_right(honest | {"accepted": False, "code": "wrong_values"})


def test_a_file_without_its_task_is_named(root):
    (root / "tasks" / "relu.py").unlink()
    with pytest.raises(UsageError, match=r"inline_assembly.py"):
        read_corpus(root)


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no corpus"):
        read_corpus(tmp_path)


def test_a_checkout_without_the_checker_is_refused(root, tmp_path):
    plan = CorpusPlan(root=root, out=tmp_path / "out.jsonl", device="cpu", kernelbench=tmp_path)
    with pytest.raises(UsageError, match="no KernelBench"):
        run_corpus(plan, print)
