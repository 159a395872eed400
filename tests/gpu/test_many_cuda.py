"""Many at once on a GPU: correctness side by side, times by the clock owner."""

import pytest

from corpus import ROOT
from kernelwright.core import record
from kernelwright.core.verdict import Verdict
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many

RELU = (ROOT / "tasks" / "relu.py").read_text()
GOOD = (ROOT / "honest" / "plain.py").read_text()
FAR = GOOD.replace("tl.store(y + i,", "tl.store(y + i + (1 << 36),")


@pytest.mark.parametrize("grade", ["fresh", "recycled"])
def test_what_is_right_is_timed_by_the_clock_owner(tmp_path, grade):
    assert FAR != GOOD
    sources = {"wrong": GOOD.replace("tl.maximum", "tl.minimum"), "far": FAR}
    sources |= {f"good {n}": f"{GOOD}\n# {n}\n" for n in range(6)}
    jobs = [Job(id=name, reference=RELU, candidate=text) for name, text in sources.items()]
    recipe = JudgeRecipe(device="cuda", grade=grade, budget_s=10.0).resolved()
    pools = local_pools(recipe, 3)
    summary = judge_many(jobs, recipe, tmp_path, pools.judges, pools.clock)
    assert (summary["infra"], summary["codes"]["ok"]) == (0, 6)
    assert summary["clock"]["timed"] == 6
    if grade == "recycled":
        assert "compile" not in summary["clock"]["stages_s"], "the judges have compiled them"
    for line in record.read(tmp_path / "records.jsonl"):
        if line["record"] == "verdict":
            verdict = Verdict.from_json(line["verdict"])
            assert verdict.grade == grade
            assert verdict.accepted == line["id"].startswith("good")
            assert (verdict.speedup is not None) == verdict.accepted
