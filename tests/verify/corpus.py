"""The corpus: one file a cheat or a tempting honest kernel, its facts in leading comments."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1] / "corpus"


@dataclass(frozen=True)
class Entry:
    path: Path
    facts: dict[str, str]

    @property
    def task(self) -> Path:
        return ROOT / "tasks" / f"{self.facts['task']}.py"

    @property
    def mode(self) -> str:
        return self.facts.get("mode", "pure")

    @property
    def needs_gpu(self) -> bool:
        return self.facts.get("device") == "cuda"


def entries(kind: str) -> list[Entry]:
    """All files of a kind ("cheats" or "honest"), by name."""
    return [Entry(path, facts(path)) for path in sorted((ROOT / kind).glob("*.py"))]


def facts(path: Path) -> dict[str, str]:
    """The `# key: value` lines a file begins with."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        found[key] = value
    return found
