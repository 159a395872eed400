"""House rules, as tests: sizes, names, and documents that match what is there."""

import ast
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.pages.readme import write_summary

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "kernelwright"
SOURCES = sorted([*SRC.rglob("*.py"), *(ROOT / "tools").rglob("*.py")])
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_FOLDER_FILES = 25
MOST_WORDS = 30
"""The most words of a sentence of a docstring."""
MOST_WORDS_OF_PAGES = 25
SENTENCES_AS_RECORDED = {"LOG.md", "CHANGELOG.md", "lint-kernelbench.md"}
"""Pages of findings: their entries are short instead, or lists of tasks."""
MOST_LOG_WORDS = 120
"""The most words of an entry of docs/LOG.md, its title and its tables not counted."""
EMPTY_NAMES = {"each", "found", "made", "given", "held", "told"}
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MACHINE_PATH = re.compile(r"(?<![\w.<])/(?:root|home|work|tmp|Users|mnt|opt)/\w")


def tracked(pattern: str) -> list[Path]:
    """Files under version control, and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function, its docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                text = node.body[0]
                assert text.end_lineno is not None
                lines -= text.end_lineno - text.lineno + 1
            yield node.name, lines


def links(text: str) -> list[str]:
    """Targets of Markdown links that name files, anchors cut off."""
    found = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)
    return [link.partition("#")[0] for link in found if not re.match(r"[a-z]+:|#", link)]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_code_that_documents_link_to_is_in_the_file(page):
    """A link `[`Trial.read`](../src/....py)` names what the file defines."""
    pattern = r"\[`([\w.]+)`\]\((\.\./src/[\w/]+\.py)\)"
    missing = []
    for name, target in re.findall(pattern, page.read_text()):
        if (SRC / name.partition(".")[0]).is_dir():
            continue  # the link names a package
        tree = ast.parse((page.parent / target).read_text())
        for part in name.split("."):
            inner = [node for node in ast.walk(tree) if getattr(node, "name", None) == part]
            if not inner:
                missing.append(f"{name} in {target}")
                break
            tree = inner[0]
    assert missing == []


def test_no_source_file_is_too_long():
    long = {p.name: n for p in SOURCES if (n := len(p.read_text().splitlines())) > MAX_FILE_LINES}
    assert long == {}


def test_no_folder_has_too_many_files():
    sizes = Counter(path.parent.relative_to(ROOT) for path in SOURCES)
    assert {str(folder): n for folder, n in sizes.items() if n > MAX_FOLDER_FILES} == {}


def test_every_package_says_what_it_is():
    inits = SRC.rglob("__init__.py")
    assert [path for path in inits if not ast.get_docstring(ast.parse(path.read_text()))] == []


def docstrings() -> Iterator[tuple[str, str]]:
    """(where, text) of every docstring, those of attributes and constants too."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield f"{path.relative_to(ROOT)}:{value.lineno}", value.value


def sentences(text: str) -> list[str]:
    """Sentences, and the parts between colons and semicolons; a paragraph ends a sentence. Drawings
    and tables, which have columns, are none."""
    parts = re.split(r"(?<=[.!?:;])\s+|\n\s*\n", text)
    return [part for part in parts if not re.search(r"\S {2,}\S", part)]


def test_a_class_name_has_one_meaning():
    places: dict[str, list[str]] = {}
    for path in SRC.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SRC)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_variables_are_nouns():
    """`answer` says more than `each`, and `accepted` more than `found`."""
    empty = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}"
        for path in SOURCES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if node.id in EMPTY_NAMES
    }
    assert empty == set()


def test_docstrings_name_their_subject():
    headless = [where for where, text in docstrings() if text.startswith(("Of ", "What "))]
    assert headless == [], "not 'Of the run.' or 'What a run has.' but 'The folder of the run.'"


def test_sentences_of_docstrings_are_short():
    long = [
        f"{where}: {sentence[:60]}"
        for where, text in docstrings()
        for sentence in sentences(text)
        if len(sentence.split()) > MOST_WORDS
    ]
    assert long == []


def paragraphs(page: str) -> Iterator[str]:
    """The paragraphs and list items of a page in Markdown, without code, tables and titles."""
    page = re.sub(r"```.*?```|<!--.*?-->", "", page, flags=re.DOTALL)
    lines: list[str] = []
    for line in [*page.splitlines(), ""]:
        is_item = re.match(r"\s*([-*]|\d+\.)\s", line) is not None
        is_text = bool(line.strip()) and not line.lstrip().startswith(("|", "#"))
        if lines and (is_item or not is_text):
            yield " ".join(lines)
            lines = []
        if is_text:
            lines.append(line.strip())


@pytest.mark.parametrize(
    "page", [page for page in DOCS if page.name not in SENTENCES_AS_RECORDED], ids=lambda p: p.name
)
def test_sentences_of_documents_are_short(page):
    long = [
        sentence
        for paragraph in paragraphs(page.read_text(encoding="utf-8"))
        for sentence in re.split(r'(?<=[.!?:;])\s+(?=[A-Z"`*\[(])', paragraph)
        if len(sentence.split()) > MOST_WORDS_OF_PAGES
    ]
    assert long == []


def test_a_long_sentence_of_a_document_is_seen():
    page = "# Title\n\n- one two\n  three. Four\n\n| a | b |\n\n```\ncode\n```\nfive"
    assert list(paragraphs(page)) == ["- one two three. Four", "five"]


def log_words(entry: str) -> int:
    """The words of an entry, without title, table rows and marks of lists."""
    text = re.sub(r"^\*\*.*?\*\*", "", entry, count=1, flags=re.DOTALL)
    lines = (line for line in text.split("\n") if not line.startswith("|"))
    return sum(word != "-" for line in lines for word in line.split())


def test_entries_of_the_log_are_short():
    parts = re.split(r"\n(?=\*\*20\d\d-|## )", (ROOT / "docs" / "LOG.md").read_text())
    entries = [part for part in parts if part.startswith("**20")]
    assert len(entries) > 100
    long = {entry[:60]: log_words(entry) for entry in entries if log_words(entry) > MOST_LOG_WORDS}
    assert long == {}


def test_words_of_a_log_entry_are_those_of_its_text():
    entry = "**2026-11-20. A title.** One two:\n\n| three | four |\n| --- | --- |\n\n- five\n"
    assert log_words(entry) == 3


def test_no_function_is_too_long():
    long = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in SOURCES
        for name, lines in functions(path)
        if lines > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_a_long_function_is_seen(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("def f():\n    '''One\n    two.'''\n" + "    x = 1\n" * 61)
    assert list(functions(path)) == [("f", 62)]


def test_nothing_is_called_utils():
    assert [p for p in tracked("*.py") if re.search(r"util|helper|common|misc", p.stem)] == []


def test_sources_are_ascii():
    assert [p.name for p in SOURCES if not p.read_text().isascii()] == []


def test_test_files_have_names_of_their_own():
    names = [p.name for p in (ROOT / "tests").rglob("*.py") if p.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_the_folder_map_names_every_package():
    block = re.search(r"## Folders\n+```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    named = set(re.findall(r"^  (\w+)/", block[1], re.MULTILINE))
    assert named == {path.parent.name for path in SRC.glob("*/__init__.py")}


@pytest.mark.parametrize("path", DOCS, ids=lambda p: p.name)
def test_links_in_documents_resolve(path):
    assert [link for link in links(path.read_text()) if not (path.parent / link).exists()] == []


def test_a_broken_link_is_seen():
    text = "[a](gone.md#part) [b](https://example.org) [c](#here)"
    assert links(text) == ["gone.md"]


def test_nothing_under_version_control_names_a_place_on_some_machine():
    kinds = {".md", ".py", ".toml", ".yaml", ".jsonl", ".json", ".html", ".css", ".js"}
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked("*")
        if path.suffix in kinds and path != Path(__file__)
        for match in MACHINE_PATH.finditer(path.read_text())
    ]
    assert found == []


def test_published_figures_are_those_of_the_records(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text((ROOT / "README.md").read_text())
    made = tmp_path / "results"
    shutil.copytree(ROOT / "results", made)
    write_summary(made, readme)
    assert readme.read_text() == (ROOT / "README.md").read_text()
    assert (made / "summary.json").read_text() == (ROOT / "results" / "summary.json").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_are_short_and_documented(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 80


def test_the_demo_runs_every_example_it_names():
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"examples[/.](\w+)", makefile))
    assert len(named) >= 5
    assert named <= {path.stem for path in (ROOT / "examples").glob("*.py")}


IMPORTED = re.compile(r"^from (kernelwright[\w.]*) import ([\w, ]+)$", re.MULTILINE)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.stem)
def test_what_documents_import_is_there(path):
    for module, names in IMPORTED.findall(path.read_text()):
        place = SRC.parent.joinpath(*module.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        assert file.exists(), module
        defined = file.read_text()
        for name in names.split(", "):
            assert re.search(rf"^(?:async )?(?:def |class |){name}\b", defined, re.MULTILINE), name
