"""The files of a corpus: cheats, and odd but honest kernels, with the facts that they begin with.

The folder holds `cheats/`, `honest/` and `tasks/`, the first two with folders by kind. The facts of
a file are the `# key: value` lines at its beginning: `task`, `mode` (pure unless said) and
`contract` (fixed unless said). `device: cuda` says that the file needs a GPU, and `large: yes` that
the case beyond 2^31 elements is needed. A cheat has `exploit` or `kind`, an honest kernel `what`.
"""

from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

KINDS = ("cheats", "honest")


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One file of the corpus."""

    root: Path
    kind: str
    """"cheats" or "honest"."""
    path: Path
    facts: dict[str, str]

    @property
    def task(self) -> Path:
        return self.root / "tasks" / f"{self.facts['task']}.py"

    @property
    def name(self) -> str:
        """Path below the folder of its kind, without the ending."""
        return self.path.relative_to(self.root / self.kind).with_suffix("").as_posix()

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name, as in the records."""
        return self.kind, self.name

    @property
    def exploit(self) -> str:
        """A published exploit, "E01" to "E77"; "" for an honest kernel and for a cheat by kind."""
        return self.facts.get("exploit", "")

    @property
    def needs_gpu(self) -> bool:
        return self.facts.get("device") == "cuda"

    def head(self) -> Record:
        """The fields by which every record of the file names the file."""
        about = self.facts.get("how") or self.facts.get("what", "")
        return {"kind": self.kind, "name": self.name, "exploit": self.exploit, "about": about}


def facts(path: Path) -> dict[str, str]:
    """Key -> value of the `# key: value` lines at the beginning of a file."""
    facts = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        facts[key] = value
    return facts


def read_corpus(root: Path) -> list[CorpusEntry]:
    """All files of a corpus, cheats first, sorted by path.

    Raises:
        UsageError: there is no file, or a file names no task of the corpus.
    """
    entries = [
        CorpusEntry(root, kind, path, facts(path))
        for kind in KINDS
        for path in sorted((root / kind).rglob("*.py"))
    ]
    if not entries:
        raise UsageError(
            "no corpus here", file=str(root), remedy="name a folder with cheats/, honest/, tasks/"
        )
    for entry in entries:
        if "task" not in entry.facts or not entry.task.is_file():
            raise UsageError(
                "names no task of the corpus",
                file=str(entry.path),
                remedy="begin with a line `# task: NAME`, a file in tasks/",
            )
    return entries
