"""The file of a run: a header that tells how its programs are drawn, then a record per program.

    {"record": "synth", ...}      recipe, seed, groups, what was avoided, versions, the space
    {"record": "program", ...}    "drawn": how to draw it again and what that took; the program
    {"record": "given_up", ...}   in place of a program that many attempts did not give

The file names no machine and no time of day: recipe, seed and versions decide every byte. Only a
run that takes reference times adds measured times, and the name of the GPU in the header.
"""

from collections.abc import Iterable
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

HEADER = "synth"
SETTLED = ("program", "given_up")


class ProgramFile:
    """A file that a run begins, or continues after an earlier run.

    Args:
        header: the first line, if the file is new; else the line that the file must begin with.
        places: (name of the group, index) of the file's programs, in order.

    Raises:
        UsageError: the file belongs to another plan, or is no file of programs.
    """

    def __init__(self, path: Path, header: Record, places: Iterable[tuple[str, int]]) -> None:
        self.path = path
        self.num = 0
        """Programs it holds already."""
        self.fingerprints: set[str] = set()
        """The fingerprints of these programs."""
        # A run that was killed may have written half of its last line.
        record.cut_torn_line(path)
        lines = record.read(path) if path.exists() else iter(())
        first = next(lines, None)
        if first is None:
            record.append(path, [header])
            return
        check_header(first, str(path))
        record.check_same(first, header, str(path))
        # Novelty depends on all earlier programs. So the old lines must be exactly the first ones
        # of this plan, or the file would differ from a file drawn at once.
        for line, place in zip(lines, places, strict=False):
            self.num += 1
            if _place(line) != place:
                raise UsageError(
                    f"expected program {place[1]} of {place[0]}",
                    file=str(path),
                    line=self.num + 1,
                    remedy="give another --out file",
                )
            if line["record"] == "program":
                self.fingerprints.add(line["fingerprint"])

    def write(self, lines: Iterable[str]) -> None:
        """Add records, as JSON texts."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


def _place(line: Record) -> tuple[str, int] | None:
    if line.get("record") not in SETTLED:
        return None
    return line["drawn"]["group"], line["drawn"]["index"]


def check_header(header: Record, path: str) -> None:
    """Check the first line of a file of programs.

    Raises:
        UsageError: the line is no header of such a file.
    """
    if header.get("record") != HEADER:
        raise UsageError(
            "these are not programs of `kernelwright synth`",
            file=path,
            line=1,
            remedy="give another file",
        )


def fingerprints(path: Path) -> set[str]:
    """The fingerprints of the programs in a JSONL file of any command that writes their records.

    Raises:
        UsageError: there is no such file, or no program in it.
    """
    listed = {line["fingerprint"] for line in record.read(path) if "fingerprint" in line}
    if not listed:
        raise UsageError("holds no program with a fingerprint", file=str(path))
    return listed
