"""Whatever foreign code does, it costs its child process and nothing else."""

import os
import signal
import subprocess
import sys
import time

import pytest

from kernelwright.data.collect.confined import confined
from kernelwright.data.collect.outcome import CollectOutcome, Refused


def outcome_of(work, timeout_s=5.0):
    with pytest.raises(Refused) as refused:
        confined(work, timeout_s)
    return refused.value


def busy():
    while True:
        pass


def hungry():
    return {"length": len(bytearray(1 << 40))}


def raising():
    raise KeyError("at 0x7f00 in /some/where/file.py")


def refusing():
    raise Refused(CollectOutcome.NO_INPUTS, "none fit")


def out_of_memory():
    raise Refused(CollectOutcome.NO_INPUTS, "DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (lambda: os._exit(3), CollectOutcome.CRASH),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), CollectOutcome.CRASH),
        (lambda: sys.exit("bye"), CollectOutcome.UNEXPECTED),
        (raising, CollectOutcome.UNEXPECTED),
        (refusing, CollectOutcome.NO_INPUTS),
        (hungry, CollectOutcome.MEMORY),
        (out_of_memory, CollectOutcome.MEMORY),
    ],
    ids=["exit", "killed", "sys_exit", "raise", "refuse", "memory", "torch_memory"],
)
def test_each_end_has_its_outcome(work, outcome):
    assert outcome_of(work).outcome is outcome


@pytest.mark.slow
def test_too_much_work_and_too_long_a_wait_both_end():
    assert outcome_of(busy, 1.0).detail == "more than 1 s"
    waiting = outcome_of(lambda: time.sleep(60), 0.1)
    assert (waiting.outcome, waiting.detail) == (CollectOutcome.TIMEOUT, "it waits")


def test_details_are_the_same_on_every_machine():
    assert outcome_of(raising).detail == "KeyError: 'at 0x... in file.py'"


def test_what_it_returns_prints_and_writes(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work():
        os.write(1, b"noise")
        os.write(2, b"noise")
        with open("left_behind", "w") as file:
            file.write("x")
        return {"pid": os.getpid(), "folder": os.getcwd()}

    found = confined(work, 5.0)
    assert found["pid"] != os.getpid()
    assert not os.path.exists(found["folder"])
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_processes_it_started_end_with_it():
    def work():
        return {"pid": subprocess.Popen(["sleep", "600"]).pid}

    pid = confined(work, 5.0)["pid"]
    deadline_s = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}/stat") and time.monotonic() < deadline_s:
        with open(f"/proc/{pid}/stat") as file:
            if file.read().split()[2] == "Z":  # ended; nobody has asked for its status yet
                return
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}/stat")
