"""Many tasks linted side by side, each in a worker process: one that crashes costs itself only."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.sandbox.shared.own_folders import own_folder
from kernelwright.sandbox.workers.executor import Factory
from kernelwright.sandbox.workers.local import LocalExecutor
from kernelwright.verify.linting.task import task_name


def expand(specs: Sequence[str]) -> list[str]:
    """Files, factories, and the Python files of folders, in order.

    Raises:
        UsageError: nothing is there.
    """
    names: list[str] = []
    for spec in specs:
        path = Path(spec)
        if path.is_dir():
            names += sorted((str(file) for file in path.glob("*.py")), key=_by_number)
        elif path.is_file() or (":" in spec and path.suffix != ".py"):
            names.append(spec)
        else:
            raise UsageError("no such file", file=spec, remedy="give Python files or folders")
    if not names:
        raise UsageError("no Python files here", file=specs[0], remedy="give files or folders")
    return list(dict.fromkeys(names))


def _by_number(path: str) -> tuple[int, str]:
    """Files numbered 1_, 2_, .. 10_ in that order."""
    number = Path(path).name.partition("_")[0]
    return (int(number) if number.isdigit() else 0, path)


def lint_files(
    specs: Sequence[str],
    *,
    device: str,
    budget_s: float,
    timeout_s: float,
    num_workers: int,
    out: Path | None = None,
    say: Say = lambda _: None,
) -> list[Record]:
    """A record of each task, in order: "lint" with its report, or "lint_error".

    Args:
        out: JSONL file that records are added to as they come; tasks it has a report of are not
            looked at again.
        timeout_s: of one task.
    """
    done = _done(out)
    todo = [spec for spec in specs if task_name(spec) not in done]
    if out is not None:
        options = {"device": device, "budget_s": budget_s, "num_workers": num_workers}
        head: Record = {"record": "run", "command": "lint", "options": options}
        record.begin(out, head | {"cases": len(specs)})
    for line in _lines(todo, device, budget_s, timeout_s, num_workers):
        done[line["task"]] = line
        if out is not None:
            record.append(out, [line])
        say(f"{len(done)} of {len(specs)}: {describe(line)}")
    return [done[task_name(spec)] for spec in specs]


def _lines(
    todo: Sequence[str], device: str, budget_s: float, timeout_s: float, num_workers: int
) -> Iterator[Record]:
    """Records as they come; tasks that found too little memory are tried again alone.

    Their order is mixed: large tasks, which often lie in one folder, wait for each other.
    """
    todo = sorted(todo, key=lambda spec: derive(0, task_name(spec)))
    alone: list[str] = []
    with own_folder("lint") as folder:
        for specs, workers in ((todo, min(num_workers, len(todo))), (alone, 1)):
            if not specs:
                continue
            arguments = {
                "device": device, "budget_s": budget_s, "num_workers": workers,
                "memory": str(folder),
            }  # fmt: skip
            factory = Factory("kernelwright.verify.linting.worker:lints", arguments)
            jobs = [(spec, {"spec": spec}) for spec in specs]
            with LocalExecutor(factory, workers, job_s=timeout_s) as executor:
                for done in executor.run(jobs):
                    answer = done.answer or {"kind": "crash", "error": _last_line(done.failure)}
                    if answer.get("kind") == "memory" and workers > 1:
                        alone.append(done.id)
                        continue
                    yield _line(done.id, answer)


def _line(spec: str, answer: Record) -> Record:
    if "report" in answer:
        return {"record": "lint", **answer["report"]}
    return {
        "record": "lint_error",
        "task": task_name(spec),
        "kind": answer["kind"],
        "message": answer["error"],
        "remedy": answer.get("remedy"),
    }


def _last_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"


def _done(out: Path | None) -> dict[str, Record]:
    lines = [] if out is None else record.resumed(out)
    return {line["task"]: line for line in lines if line["record"] == "lint"}


def describe(line: Record) -> str:
    """One task in a few words."""
    if line["record"] == "lint_error":
        return f"{line['task']}: {line['kind']}: {line['message']}"
    ids = list(dict.fromkeys(finding["id"] for finding in line["findings"]))
    return f"{line['task']}: {', '.join(ids) or 'clean'}"
