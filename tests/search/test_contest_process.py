"""The process of a contest: started ahead, asked once, ended with its search."""

import subprocess
import sys
import time
from contextlib import closing

import pytest

from kernelwright.search.contest.process import WAITED, ContestProcess
from kernelwright.timing.deadline import Budget
from kernelwright.timing.stages import take_spent, worked_s


def process(path):
    """Says that it was started, then answers a job with the seconds it waited for it."""
    text = (
        f"import json, sys, time; open({str(path)!r}, 'a').write('started ');"
        " begin_s = time.time(); job = json.load(sys.stdin);"
        " print(json.dumps({'job': job, 'waited_s': time.time() - begin_s}))"
    )
    return closing(ContestProcess((sys.executable, "-c", text)))


def a_minute():
    return Budget.start(60.0).deadline


def waiting_process(seconds):
    """Waits for others until `seconds` are over, tells so meanwhile, and answers then."""
    text = f"""
import json, sys, time
json.load(sys.stdin)
begin_s = time.time()
while (spent_s := time.time() - begin_s) < {seconds}:
    time.sleep(0.1)
    print(json.dumps({{{WAITED!r}: spent_s}}), flush=True)
print(json.dumps({{"done": True}}))
"""
    return closing(ContestProcess((sys.executable, "-c", text)))


def wait_for(path):
    end_s = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end_s:
        time.sleep(0.02)


def test_a_process_that_was_started_ahead_gets_the_job(tmp_path):
    path = tmp_path / "started"
    with process(path) as contest_process:
        contest_process.start()
        wait_for(path)
        time.sleep(0.3)
        answer = contest_process.answer({"text": "x"}, a_minute())
    assert answer["job"]["text"] == "x"
    assert answer["waited_s"] > 0.2, "it was started before it was asked"
    assert path.read_text() == "started "


def test_a_second_contest_has_a_process_of_its_own(tmp_path):
    path = tmp_path / "started"
    with process(path) as contest_process:
        assert contest_process.answer({"number": 1}, a_minute())["job"]["number"] == 1
        assert contest_process.answer({"number": 2}, a_minute())["job"]["number"] == 2
    assert path.read_text() == "started started "


def test_a_process_that_nobody_asks_ends_with_the_search(tmp_path):
    path = tmp_path / "started"
    with process(path) as contest_process:
        contest_process.start()
        wait_for(path)
        running = contest_process._process
        assert running is not None
        assert running.poll() is None
    assert running.poll() is not None


def test_waiting_for_others_is_not_time_of_the_contest():
    take_spent()
    begin_s = worked_s()
    with waiting_process(3.0) as contest_process:
        assert contest_process.answer({}, Budget.start(1.5, wall_s=60.0).deadline) == {"done": True}
    # Nor is this waiting time of the search.
    assert worked_s() - begin_s < 2.0
    spent = take_spent()
    assert spent["wait for the GPU"] > 2.5
    assert spent["beside torch.compile"] < 2.0


def test_all_waiting_together_has_an_end():
    begin_s = time.monotonic()
    with waiting_process(60.0) as contest_process:
        assert "not ready" in contest_process.answer({}, Budget.start(1.0, wall_s=3.0).deadline)
    assert 2.5 < time.monotonic() - begin_s < 20


@pytest.mark.slow
def test_the_real_process_ends_where_it_gets_no_job():
    ended = subprocess.run(
        [sys.executable, "-m", "kernelwright.search.contest.child"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
