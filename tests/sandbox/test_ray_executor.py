"""The executor on a real Ray cluster of several nodes, with a node killed in mid-run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core import record

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelwright[cluster]'")

HERE = Path(__file__).parent
SRC = Path(__file__).parents[2] / "src"
NUM_JOBS = 40


@pytest.mark.slow
def test_a_node_killed_in_mid_run_loses_nothing_and_nothing_comes_twice(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{SRC}:{HERE}"}
    done = subprocess.run(
        [sys.executable, HERE / "cluster_run.py", tmp_path, str(NUM_JOBS)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    killed_after = int(done.stdout.splitlines()[-1].removeprefix("killed after "))
    assert killed_after < NUM_JOBS
    verdicts = [r for r in record.read(tmp_path / "run" / "records.jsonl") if "verdict" in r]
    assert sorted(r["id"] for r in verdicts) == sorted(f"job-{n}" for n in range(NUM_JOBS))
    assert all(r["verdict"]["code"] == "ok" for r in verdicts)


def test_no_cluster_at_an_address_is_the_users_fault():
    code = (
        "from kernelwright.sandbox.workers.executor import Factory\n"
        "from kernelwright.sandbox.workers.ray import RayExecutor, ActorShare\n"
        "RayExecutor(Factory('a:b'), 1, ActorShare(), address='auto').__enter__()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC), "RAY_TMPDIR": "", "RAY_ADDRESS": ""},
    )
    assert "UsageError" in done.stderr
    assert "no Ray cluster at auto" in done.stderr
