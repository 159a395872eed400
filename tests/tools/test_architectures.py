"""Small models of each kind through every stage before the search, and the suite's machinery."""

import json
from pathlib import Path

import pytest
import torch

from kernelwright.bench.models.libraries import missing
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from tools.architectures.architecture import Architecture, Example
from tools.architectures.measure import measure
from tools.architectures.running import measure_all, measured
from tools.architectures.suite import LIBRARIES, suite
from tools.architectures.table import page

ARCHITECTURES = {each.name: each for each in suite()}
QUICK = (
    "torch/lstm_cell torch/multihead_attention transformers/squeezebert transformers/distilbert "
    "transformers/vit transformers/resnet transformers/patchtst transformers/mpt timm/resnet18"
)


class Refused(torch.nn.Module):
    """Branches on a value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice the input, or the input."""
        return x * 2 if x.sum() > 0 else x


def last_record(architecture: Architecture) -> dict:
    records: list[dict] = []
    measure(architecture, records.append)
    return records[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK.split())
def test_a_small_model_of_each_kind_passes_every_stage(name):
    architecture = ARCHITECTURES[name]
    if architecture.library in (reasons := missing(LIBRARIES)):
        pytest.skip(f"{architecture.library}: {reasons[architecture.library]}")
    case = last_record(architecture)
    assert case["status"] == "lowered", case
    assert case["stage"] == "done"
    assert case["round_trip"]
    assert case["same_numbers"]
    assert case["fragments"] > 0


def test_the_suite_has_two_hundred_architectures_with_names_of_their_own():
    assert len(ARCHITECTURES) == len(suite())
    assert sum("decode" not in name for name in ARCHITECTURES) >= 200


def test_a_refusal_is_recorded_with_its_remedy():
    example = Example(Refused(), (torch.randn(3),))
    case = last_record(Architecture("ours/refused", "test", lambda: example))
    assert case["status"] == "refused"
    assert "values of a tensor" in case["message"]
    assert "torch.where" in case["remedy"]


def test_an_exception_of_ours_is_a_crash_with_its_place(monkeypatch):
    def broken(*_, **__):
        raise KeyError("lost")

    monkeypatch.setattr("tools.architectures.measure.forms", broken)
    example = Example(torch.nn.Linear(3, 3), (torch.randn(2, 3),))
    case = last_record(Architecture("ours/linear", "test", lambda: example))
    assert (case["status"], case["stage"]) == ("crash", "forms")
    assert case["calls"] == 1


def test_a_model_that_its_library_cannot_run_is_not_counted_against_us():
    def build() -> Example:
        raise UsageError("no such option")

    assert last_record(Architecture("ours/none", "test", build))["status"] == "unbuilt"


@pytest.mark.slow
def test_a_model_that_never_ends_is_stopped_by_its_cpu_time():
    def build() -> Example:
        while True:
            pass

    case = measured(Architecture("ours/endless", "test", build), limit_s=1)
    assert (case["status"], case["stage"]) == ("timeout", "build")


def test_a_run_goes_on_where_it_ended_and_names_what_it_skips(tmp_path):
    example = Example(torch.nn.Linear(3, 3), (torch.randn(2, 3),))
    linear, absent = (
        Architecture(name, "test", lambda: example) for name in ("ours/linear", "absent/linear")
    )
    path, lines = tmp_path / "records.jsonl", []
    for _ in range(2):
        reasons = {"absent": "not installed"}
        measure_all([linear, absent], path, reasons, limit_s=60, tell=lines.append)
    run, case = map(json.loads, path.read_text().splitlines())
    assert run["environment"]["versions"]["torch"] == torch.__version__
    assert case["name"] == "ours/linear"
    assert lines[0] == "skipped: all models of absent: not installed"


def test_the_page_says_what_stays_in_pytorch_and_what_was_refused():
    lowered = {"name": "a/b", "family": "decoder", "status": "lowered", "stage": "done"}
    lowered |= {"calls": 5, "extern": {"aten.sort.default": 2}, "cpu_s": {"lower": 21.0}}
    refused = {"name": "a/c", "family": "decoder", "status": "refused", "stage": "lower"}
    refused |= {"place": "c.py:3", "message": "a|b", "remedy": "split it", "cpu_s": {}}
    text = page([lowered, refused])
    assert "2 cases; 1 lowered as called (50.0%); 1 spent more than 20 CPU seconds" in text
    assert "| `aten.sort.default` | 1 | 2 | decoder 1 |" in text
    assert "| a/c | refused | lower | c.py:3 | a\\|b | split it |" in text


def test_the_published_page_is_made_from_the_published_records():
    root = Path(__file__).parents[2]
    records = record.read(root / "results" / "architectures-cpu.jsonl")
    cases = [line for line in records if "name" in line]
    assert (root / "docs" / "models.md").read_text() == page(cases) + "\n"
