"""Write generated pages: `python -m tools.pages [NAME]...`, without names all of them."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from kernelwright.core.errors import UsageError
from tools.pages import (
    collect,
    lint_kernelbench,
    matrix,
    readme,
    records,
    static_rules,
    teacher_coverage,
    teacher_split,
)

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
PAGES: dict[str, Callable[[Path], object]] = {
    "records": lambda page: page.write_text(records.page()),
    "static-rules": lambda page: page.write_text(static_rules.page()),
    "collect": lambda page: collect.write_table(RESULTS / "collect.jsonl", page),
    "lint-kernelbench": lambda page: lint_kernelbench.write_page(
        RESULTS / "lint-kernelbench.jsonl", page
    ),
    "verifier-matrix": lambda page: matrix.write_matrix(RESULTS, page),
    "readme": lambda _: readme.write_summary(RESULTS, ROOT / "README.md"),
    "teacher-coverage": lambda page: page.write_text(teacher_coverage.page()),
    "teacher-split": lambda page: page.write_text(teacher_split.page()),
}
"""Name of a page -> the function that writes its file. The last two take minutes."""


def main() -> None:
    """Write the pages that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(PAGES))
    names = parser.parse_args().names or list(PAGES)
    if unknown := [name for name in names if name not in PAGES]:
        parser.error(f"no page {', '.join(unknown)}; there are {', '.join(PAGES)}")
    for name in names:
        try:
            PAGES[name](DOCS / f"{name}.md")
        except (OSError, UsageError) as error:
            parser.exit(2, f"{name}: {error}\n")
        sys.stdout.write(f"written  {name}\n")


if __name__ == "__main__":
    main()
