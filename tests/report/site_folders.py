"""Folders of runs of each kind, as commands write them, for tests of the site."""

from rl_records import write_rl
from search_records import KERNEL, accepted, gpu_run
from test_suite_scores import CASES, RUN, case, wrong
from test_synthetic_page import GREEDY
from test_synthetic_page import RUN as EXAMINATION

from kernelwright.core import record

SETTINGS = {"suite": "kernelbench", "policy": "teacher", "mode": "hybrid", "precision": "strict"}
HOSTILE = "<script>alert(1)</script>"


def write_bench(folder):
    """A run of `eval kernelbench`; one of its searches is kept."""
    cases = [line | SETTINGS for line in CASES]
    record.append(folder / "records.jsonl", [RUN, *cases])
    record.append(folder / "work" / "L1" / "1_task" / "records.jsonl", gpu_run())
    return folder


def write_later_bench(folder):
    """A later run on the same tasks: task 5 is gained, task 1 is lost, task 2 is twice as fast."""
    cases = [
        wrong(1, eager=2.0, compiled=1.5),
        case(2, 0.5, 2.0, 0.5),
        *CASES[2:4],
        case(5, 1.0, 3.0, 3.0),
    ]
    record.append(folder / "records.jsonl", [RUN, *(line | SETTINGS for line in cases)])
    return folder


def write_exam(folder):
    """A run of `eval synthetic`, with the first answer and its verdict."""
    first = GREEDY[0]["name"]
    plan = {"kernel": "linear_gelu", "fuses": ["linear"], "loop": "rows", "tiles": {"BLOCK": 64}}
    answer = {"source": f"{KERNEL}# {HOSTILE}\n", "schedule": "rows", "plan": [plan]}
    record.append(folder / "records.jsonl", [EXAMINATION, *GREEDY])
    record.append(
        folder / "answers.jsonl",
        [{"record": "answers", "problem": first, "digest": "", "answers": [answer]}],
    )
    verdict = {"record": "verdict", "id": f"{first}/0", "verdict": accepted(0.05, 1e-7).to_json()}
    record.append(folder / "judged" / "records.jsonl", [{"record": "run"}, verdict])
    return folder


def write_folders(folder):
    """A folder of each kind; the paths of a site."""
    record.append(folder / "module" / "records.jsonl", gpu_run())
    record.append(folder / "other.jsonl", [{"record": "uniformity"}] * 2)
    return [
        write_bench(folder / "bench"),
        write_later_bench(folder / "later"),
        write_exam(folder / "exam"),
        write_rl(folder / "first"),
        write_rl(folder / "second"),
        folder / "module",
        folder / "other.jsonl",
    ]
