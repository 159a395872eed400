"""The process that searches one graph's program, so that no search stops or slows the user's
process.

    python -m kernelwright.compile.child

reads one JSON object and writes the files of a search into the folder "out". The object has
"parent" (the process id of the parent), "program" (a file), "sized" (the program at several sizes,
or null), "out", "device", "precision", "budget_s" and "library".
"""

import json
import sys
from pathlib import Path

from kernelwright.core.errors import KernelwrightError
from kernelwright.library.store import Library
from kernelwright.policy.names import TEACHER
from kernelwright.programs.sizes.program import sized_of
from kernelwright.sandbox.confine import orphaned
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions


def main() -> None:
    job = json.loads(sys.stdin.read())
    orphaned.end_with_parent(job["parent"])
    try:
        options = SearchOptions(
            device=job["device"],
            precision=job["precision"],
            policy=TEACHER,
            budget_s=job["budget_s"],
        )
        optimize_target(
            job["program"],
            options,
            out=Path(job["out"]),
            library=Library(Path(job["library"])),
            sized=sized_of(job["sized"]) if job["sized"] else None,
        )
    except KernelwrightError as error:
        sys.exit(" ".join(str(error).split()))  # the parent reads the last line


if __name__ == "__main__":
    main()
