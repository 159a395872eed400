"""A collection: finds the modules of a target, takes them apart and writes their programs.

The file begins with a "run" record and a "source" for each file, with its classes. Then come the
modules: the new programs of each, and a "module" that says how it ended. The "summary" is last. The
number of workers does not change the file. An interrupted run goes on after the last "source" or
"module".
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.data.collect.confined import WALL_FACTOR
from kernelwright.data.collect.file import CollectionFile
from kernelwright.data.collect.outcome import CollectOutcome
from kernelwright.data.collect.sources import CollectSource, CollectTarget
from kernelwright.sandbox.shared.own_folders import own_folder
from kernelwright.sandbox.workers.executor import Done, Executor, Factory, Job
from kernelwright.sandbox.workers.local import LocalExecutor

_IMPORT_S = 600.0
"""Seconds that a worker may take for its own imports, beside the child's time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectOptions:
    """The settings of a collection besides its target."""

    max_calls: int = 5
    """The most calls of a program."""
    levels: tuple[int, ...] = ()
    """Numbers of calls that are kept; all where empty."""
    timeout_s: float = 60.0
    """Processor time for the import of one file, and for one module."""

    def to_json(self) -> Record:
        return {
            "max_calls": self.max_calls,
            "levels": list(self.levels),
            "timeout_s": self.timeout_s,
        }


def collect(
    spec: str,
    out: Path,
    options: CollectOptions,
    *,
    num_workers: int,
    limit: int | None = None,
    say: Say = lambda _: None,
) -> Record:
    """Write the programs of a target's modules to a JSONL file, and return the record of the
    summary. An unfinished file is resumed.

    Args:
        limit: the most programs in the file, those of earlier calls included; a later call without
            a limit continues.

    Raises:
        UsageError: there is no such target, or the file holds something else.
        InfraError: workers cannot be started.
    """
    begin_s = time.monotonic()
    target = CollectTarget.find(spec)
    file = CollectionFile(out, target.facts(), options.to_json())
    factory = Factory("kernelwright.data.collect.worker:collects", options.to_json())
    job_s = WALL_FACTOR * options.timeout_s + _IMPORT_S
    with (
        own_folder("collect") as folder,
        LocalExecutor(factory, num_workers, job_s=job_s) as executor,
    ):
        collection = _Collection(file, executor, folder, say)
        collection.survey(target.sources)
        is_whole = collection.take_apart(target.sources, limit)
    summary = summarize(file, target.facts())
    if is_whole:
        file.end(summary)
    return summary | {
        "options": options.to_json(),
        "workers": num_workers,
        "seconds": round(time.monotonic() - begin_s, 1),
        "environment": record.environment(),
    }


@dataclass(frozen=True, slots=True)
class _Collection:
    file: CollectionFile
    executor: Executor
    folder: Path
    """For what workers hand over."""
    say: Say

    def survey(self, sources: Sequence[CollectSource]) -> None:
        """Write a "source" record with the classes of each source that has none yet."""
        todo = [s for s in sources if s.name not in self.file.sources]
        jobs = {s.name: {"step": "survey", "source": asdict(s)} for s in todo if _is_open(s)}
        answers = self._in_order(jobs)
        for number, source in enumerate(todo, 1):
            answer = next(answers) if source.name in jobs else {"outcome": CollectOutcome.COLLECTED}
            line = {"classes": [[None, 0]] * (not _is_open(source)), **answer}
            self.file.write_source(source.name, line)
            self.say(f"looked into {number} of {len(todo)} files")

    def take_apart(self, sources: Sequence[CollectSource], limit: int | None) -> bool:
        """Write the programs of all modules, up to the limit. Returns whether no module is left."""
        modules = {
            _module_name(source, name): (source, name, line)
            for source in sources
            for name, line in self.file.sources[source.name]["classes"]
        }
        todo = [name for name in modules if name not in self.file.modules]
        paths = {name: self.folder / f"{i}.jsonl" for i, name in enumerate(todo)}
        jobs = {
            name: {
                "step": "collect",
                "source": asdict(modules[name][0]),
                "class": modules[name][1],
                "records": str(paths[name]),
            }
            for name in todo
        }
        for name, answer in zip(todo, self._in_order(jobs), strict=True):
            source, cls, line = modules[name]
            where = {"file": source.name, "class": cls, "line": line}
            self.file.write_module(name, where, answer, _programs(paths[name]), limit)
            self.say(
                f"{len(self.file.modules)} of {len(modules)} modules, "
                f"{self.file.num_programs} programs"
            )
            if limit is not None and self.file.num_programs >= limit:
                return False
        return True

    def _in_order(self, jobs: Mapping[str, Record]) -> Iterator[Record]:
        """The workers' answers in the order of the jobs, in which the file has to be written."""
        waiting: dict[str, Done] = {}
        done = self.executor.run(iter(list[Job](jobs.items())))
        for name in jobs:
            while name not in waiting:
                answer = next(done)
                waiting[answer.id] = answer
            finished = waiting.pop(name)
            yield finished.answer or {"outcome": CollectOutcome.CRASH, "detail": "the worker died"}


def _is_open(source: CollectSource) -> bool:
    """Whether a source's classes have to be looked for. A task or a factory is one module."""
    return source.kind in ("package", "file")


def _module_name(source: CollectSource, cls: str | None) -> str:
    return source.name if cls is None else f"{source.name}:{cls}"


def _programs(path: Path) -> Iterator[Record]:
    if path.exists():
        yield from record.read(path)
        path.unlink()


def summarize(file: CollectionFile, facts: Record) -> Record:
    """The summary record's fields: counts over the whole file."""
    outcomes = Counter(line["outcome"] for line in file.modules.values())
    lowered = [line for line in file.modules.values() if "calls" in line]
    parts: Counter[str] = Counter()
    for line in lowered:
        parts.update(line["parts"])
    refused = outcomes + Counter(
        line["outcome"]
        for line in file.sources.values()
        if line["outcome"] != CollectOutcome.COLLECTED
    )
    del refused[CollectOutcome.COLLECTED]
    return {
        **facts,
        "files": len(file.sources),
        "found": len(file.modules),
        "lowered": len(lowered),
        "parts": dict(sorted(parts.items())),
        "programs": file.num_programs,
        "by_level": dict(sorted(file.by_level.items())),
        "refused": dict(sorted(refused.items(), key=lambda item: (-item[1], item[0]))),
    }
