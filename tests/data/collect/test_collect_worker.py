"""What a worker hands over is whole or not there, however its child ends."""

import os
import signal
from pathlib import Path

from kernelwright.core import record
from kernelwright.data.collect.fragments import Parts
from kernelwright.data.collect.outcome import CollectOutcome
from kernelwright.data.collect.worker import CollectWorker

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(torch.tanh(x)) + 1.0


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""


def taken_apart(tmp_path: Path) -> tuple[dict[str, object], Path]:
    (tmp_path / "model.py").write_text(MODEL)
    source = {"kind": "task", "name": "model.py", "where": str(tmp_path / "model.py")}
    records = tmp_path / "0.jsonl"
    worker = CollectWorker(5, [], 60.0)
    job = {"step": "collect", "source": source, "class": None, "records": str(records)}
    return worker.run(job), records


def test_the_programs_of_a_module_are_handed_over(tmp_path):
    answer, records = taken_apart(tmp_path)
    assert answer["outcome"] == CollectOutcome.COLLECTED
    assert len(list(record.read(records))) > 3


def test_a_child_that_is_ended_while_it_writes_hands_nothing_over(tmp_path, monkeypatch):
    plain = Parts.records

    def ended(parts):
        yield next(plain(parts))
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Parts, "records", ended)
    answer, records = taken_apart(tmp_path)
    assert answer["outcome"] == CollectOutcome.CRASH
    assert not records.exists()
