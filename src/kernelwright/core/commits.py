"""The commits of kernelwright at which records were measured."""

from collections.abc import Iterable, Iterator

from kernelwright.core.record import Record

DIRTY = "-dirty"
"""The end of a commit if files of the checkout had changed since (`core.record.environment`)."""
DIGITS = 7
"""The digits of a commit in tables."""
UNKNOWN = "unknown"
"""The commit of records that do not say their commit."""


def with_commits(lines: Iterable[Record]) -> Iterator[tuple[Record, str]]:
    """Yield each record of a file with its commit; "" where the file does not say the commit.

    A record's own field `commit` counts. Another record has the commit of the last environment
    before it in the file.
    """
    commit = ""
    for line in lines:
        if isinstance(environment := line.get("environment"), dict):
            commit = str(environment.get("commit") or "")
        yield line, str(line.get("commit") or commit)


def distinct(commits: Iterable[str]) -> list[str]:
    """The commits of some cases, sorted, each once.

    Args:
        commits: the commit of each case. A case with parts from several commits has all of them,
            joined by "+".
    """
    return sorted({commit for joined in commits for commit in joined.split("+")})


def short(commit: str) -> str:
    """A commit for a table: its first digits, and "-dirty" if files had changed; `UNKNOWN` for
    ""."""
    if not commit:
        return UNKNOWN
    digits = commit.removesuffix(DIRTY)
    return digits[:DIGITS] + commit[len(digits) :]


def named(commits: Iterable[str]) -> str:
    """The commits of some cases for a table: "0123456", or "mixed: 0123456, ba98765"."""
    names = list(dict.fromkeys(map(short, distinct(commits))))
    return f"mixed: {', '.join(names)}" if len(names) > 1 else "".join(names)
