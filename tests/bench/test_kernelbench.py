"""A checkout of KernelBench: its tasks, kernels named as it names them, its own evaluator."""

from dataclasses import replace

import pytest

from kernelwright.bench.judge.cross_check import CrossCheck
from kernelwright.bench.kernelbench import find_tasks, kernel_file, with_samples, write_kernels
from kernelwright.core import record
from kernelwright.core.errors import UsageError

EVALUATOR = """
from dotenv import load_dotenv  # is not installed everywhere and not needed to evaluate
from pydantic import BaseModel


load_dotenv()


class Result(BaseModel):
    compiled: bool = False
    correctness: bool = False
    metadata: dict = {}


def eval_kernel_against_ref(reference, kernel, *, num_correct_trials, backend, **others):
    assert (num_correct_trials, backend) == (5, "triton")
    if "exit" in kernel:
        import os

        os._exit(3)
    if "good" in kernel:
        return Result(compiled=True, correctness=True)
    return Result(compiled=True, metadata={"correctness_issue": "Output mismatch"})
"""


@pytest.fixture
def root(tmp_path):
    """Levels 1 and 2 with a task or two each."""
    for name in ("level1/2_b.py", "level1/10_a.py", "level1/notes.py", "level2/1_c.py"):
        path = tmp_path / "checkout" / "KernelBench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# a task\n")
    return tmp_path / "checkout"


def test_tasks_are_found_by_level_and_number(root):
    assert [(task.level, task.id, task.name) for task in find_tasks(root, [2, 1])] == [
        ("L1", 2, "2_b"), ("L1", 10, "10_a"), ("L2", 1, "1_c"),
    ]  # fmt: skip
    assert [task.id for task in find_tasks(root, [1, 2], [(1, 10)])] == [10]
    assert find_tasks(root / "KernelBench", [2]) == find_tasks(root, [2])
    with pytest.raises(UsageError, match="no level 3"):
        find_tasks(root, [3])
    with pytest.raises(UsageError, match="no such tasks"):
        find_tasks(root, [1], [(1, 3)])


def test_every_sample_of_a_task_is_a_case_and_one_without_any_too(root, tmp_path):
    tasks, folder = find_tasks(root, [1, 2]), tmp_path / "kernels"
    folder.mkdir()
    for name in ("level_1_problem_2_sample_1", "level_1_problem_2_sample_0", "level_9_problem_1"):
        (folder / f"{name}_kernel.py").write_text("")
    cases = with_samples(tasks, folder)
    assert [case.key for case in cases] == [("L1", 2, 0), ("L1", 2, 1), ("L1", 10, 0), ("L2", 1, 0)]
    assert len({case.folder for case in cases}) == 4
    assert cases[1].candidate == str(folder / "level_1_problem_2_sample_1_kernel.py")
    with pytest.raises(UsageError, match="no kernels"):
        with_samples(tasks, tmp_path)


def test_what_was_accepted_is_written_where_kernelbench_looks(root, tmp_path):
    tasks, work, out = find_tasks(root, [1, 2]), tmp_path / "work", tmp_path / "kernels"
    for task in tasks:
        (work / task.folder).mkdir(parents=True)
        (work / task.folder / "optimized.py").write_text(f"# {task.name}\n")
        (work / task.folder / "slower.py").write_text(f"# {task.name}, slower\n")
    keys = [{"level": t.level, "id": t.id, "sample": t.sample} for t in tasks]
    lines = [
        {"record": "run"},
        *({**key, "correct": key["id"] != 10, "kept": key["id"] == 2} for key in keys),
    ]
    assert sorted(path.name for path in write_kernels(tasks, lines, work, out)) == [
        "level_1_problem_2_sample_0_kernel.py", "level_2_problem_1_sample_0_kernel.py",
    ]  # fmt: skip
    assert (out / "level_1_problem_2_sample_0_kernel.py").read_text() == "# 2_b\n"
    assert (out / "level_2_problem_1_sample_0_kernel.py").read_text() == "# 1_c, slower\n"


@pytest.mark.slow
def test_their_evaluator_is_asked_about_every_kernel_once(root, tmp_path):
    package = root / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "eval.py").write_text(EVALUATOR)
    tasks, kernels = find_tasks(root, [1, 2]), tmp_path / "kernels"
    kernels.mkdir()
    for task, text in zip(tasks, ("exit", "bad", "good"), strict=True):
        (kernels / kernel_file(task)).write_text(text)
    missing = replace(tasks[0], sample=7)
    check = CrossCheck(
        root=root, kernels=kernels, records=tmp_path / "cross_check.jsonl", timeout_s=60.0
    )
    found = check.run([*tasks, missing], print)
    assert [line["agrees"] for line in found] == [False, False, True]
    assert "died" in found[0]["issue"]
    assert found[1]["issue"] == "correctness_issue: Output mismatch"
    assert check.run([*tasks, missing], print) == found == list(record.read(check.records))
    with pytest.raises(UsageError, match="no evaluator"):
        replace(check, root=tmp_path).run(tasks, print)
