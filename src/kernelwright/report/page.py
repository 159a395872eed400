"""The report page: one HTML file, no network."""

from pathlib import Path

from kernelwright.report.run import read_run


def render(records_path: Path, html_path: Path) -> None:
    """Write the page of the last run in a records file."""
    run = read_run(records_path)
    html_path.write_text(str(run.result["target"]), encoding="utf-8")
