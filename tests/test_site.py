"""The documentation site builds without a warning, and holds the pages that code writes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs the extra dev")
    pytest.importorskip("mkdocstrings", reason="needs the extra dev")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("index.html", "What it gains"),
        ("reference/commands/index.html", "kernelwright eval corpus"),
        ("reference/python/index.html", "assert_kernel"),
        ("reference/reasons/index.html", "wrong_values"),
        ("judged/index.html", "src/kernelwright/verify/trial.py"),
    ],
)
def test_a_page_is_written(site, page, text):
    assert text in (site / page).read_text()


def test_every_document_has_a_place_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*.md") if f": {p.name}\n" not in listed] == []
