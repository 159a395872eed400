"""The library on disk: what goes in comes out, and nothing that was damaged does."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest
from entries_of_a_library import PLAN, entry, key, stays
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import UsageError
from kernelwright.library.entry import LibraryEntry
from kernelwright.library.store import DATABASE, SOURCES, STALE_S, Library


def test_the_records_of_a_module_survive_too():
    before = entry(key=key(scope="module"), records=({"record": "run"}, {"record": "result"}))
    assert LibraryEntry.of(json.loads(json.dumps(before.payload())), before.source) == before


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def library(tmp_path, warnings):
    return Library(tmp_path / "library", warnings.append)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1e9), st.booleans())
def test_an_entry_survives_its_way_through_json(source, saving, has_kernel):
    before = entry(source=source, saving=saving) if has_kernel else stays(saving=saving)
    payload = json.loads(json.dumps(before.payload()))
    assert LibraryEntry.of(payload, before.source) == before


def test_what_was_put_is_found_by_its_key_alone(library):
    library.put(entry())
    library.put(stays("gelu"))
    assert library.get(key()) == entry()
    assert library.get(key("gelu")) == stays("gelu")
    for other in (
        key("sigmoid"), key(device="A"), key(versions="2"), key(precision="tf32"),
        key(mode="pure"), key(writers="embedded"), key(scope="module"),
    ):  # fmt: skip
        assert library.get(other) is None


def test_the_ends_of_a_source_s_lines_stay(library):
    library.put(entry(source="# one\r\n# two\r# three\n"))
    assert library.get(key()).source == "# one\r\n# two\r# three\n"


def test_a_later_entry_takes_the_place_of_an_earlier_one(library):
    library.put(stays())
    library.put(entry(source="# a newer kernel\n"))
    assert library.get(key()).source == "# a newer kernel\n"
    assert len(library.stored()) == 1


def _edit_source(library):
    [path] = (library.folder / SOURCES).glob("*.py")
    path.write_text("import os\n")


def _lose_source(library):
    [path] = (library.folder / SOURCES).glob("*.py")
    path.unlink()


def _edit_row(library):
    with sqlite3.connect(library.folder / DATABASE) as database:
        database.execute("UPDATE entries SET payload = replace(payload, '0.5', '9.5')")


def _another_format(library):
    from kernelwright.library.entry import fingerprint

    mark = fingerprint("{}", "# a kernel\n")
    (library.folder / SOURCES / f"{mark}.py").write_text("# a kernel\n")
    with sqlite3.connect(library.folder / DATABASE) as database:
        database.execute("UPDATE entries SET payload = ?, fingerprint = ?", ("{}", mark))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (_edit_source, "it was damaged or edited"),
        (_edit_row, "it was damaged or edited"),
        (_lose_source, "its source file is missing"),
        (_another_format, "another version of kernelwright wrote it"),
    ],
)
def test_a_damaged_entry_is_skipped_with_a_message(library, warnings, damage, problem):
    library.put(entry())
    damage(library)
    assert library.get(key()) is None
    assert warnings == [f"the library's entry {key().digest[:12]} is skipped: {problem}"]
    assert [stored.problem for stored in library.stored()] == [problem]
    assert library.similar(key(device="A"), with_foreign=True) == []
    library.put(entry())
    assert library.get(key()) == entry(), "a new search mends the entry"


def test_a_damaged_database_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"no database" * 400)
    with pytest.raises(UsageError, match="cannot be used") as error:
        Library(tmp_path)
    assert "move the file away" in error.value.remedy


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        Library(tmp_path / "file")


def test_kernels_of_other_machines_and_versions_are_worth_a_try(library):
    library.put(entry(source="# old\n", key=key(versions="0"), created_s=1.0))
    library.put(entry(source="# new\n", key=key(device="A"), created_s=2.0))
    library.put(entry(source="# other precision\n", key=key(precision="tf32")))
    library.put(entry(source="# own\n"))
    library.put(stays(key=key(device="B")))
    similar = library.similar(key(), with_foreign=False)
    assert [candidate.source for candidate in similar] == ["# new\n", "# old\n"]
    assert similar[0].plan == (PLAN,)


def test_what_may_be_somebody_else_s_is_for_a_judge_that_trusts_nobody(library):
    library.put(stays("gelu", is_foreign=True))
    library.put(entry("all", key=key("all", scope="module"), is_foreign=True))
    assert not library.has_foreign(), "there is no kernel to judge again"
    library.put(entry(source="# somebody's\n", key=key(device="A"), is_foreign=True))
    assert library.has_foreign()
    assert library.similar(key(), with_foreign=False) == []
    assert len(library.similar(key(), with_foreign=True)) == 1


def test_a_row_under_another_name_is_no_answer(library):
    library.put(entry())
    with sqlite3.connect(library.folder / DATABASE) as database:
        database.execute("UPDATE entries SET digest = ?", (key("gelu").digest,))
    assert library.get(key("gelu")) is None


@pytest.mark.parametrize("source", ["def (", "import os\nos.remove('x')\n"])
def test_text_that_no_module_can_take_over_is_no_candidate(library, source):
    library.put(entry(source=source, key=key(device="A")))
    assert library.similar(key(), with_foreign=True) == []


def test_imported_kernels_are_candidates_and_no_verdicts(library, tmp_path):
    library.put(entry())
    library.put(stays("gelu"))
    assert library.export_to(tmp_path / "all.jsonl") == 2
    other = Library(tmp_path / "other")
    other.put(entry("gelu", source="# known\n"))
    assert other.import_from(tmp_path / "all.jsonl") == (1, 1)
    assert other.get(key()) is None
    assert other.has_foreign()
    assert [c.source for c in other.similar(key(), with_foreign=True)] == ["# a kernel\n"]
    assert other.get(key("gelu")).source == "# known\n"


@pytest.mark.parametrize(
    "change",
    [
        {"source": 5},
        {"created_s": "x"},
        {"limit": True},
        {"candidate": None},
        {"verdict": []},
        {"records": None},
    ],
    ids=str,
)
def test_values_of_another_type_are_no_entry(library, tmp_path, change):
    library.put(entry())
    library.export_to(tmp_path / "all.jsonl")
    [line] = (tmp_path / "all.jsonl").read_text().splitlines()
    good = json.loads(line) | {"key": json.loads(line)["key"] | {"program": "other"}}
    lines = [json.dumps(good), json.dumps(json.loads(line) | change)]
    (tmp_path / "bad.jsonl").write_text("\n".join(lines) + "\n")
    other = Library(tmp_path / "other")
    with pytest.raises(UsageError, match="no exported library"):
        other.import_from(tmp_path / "bad.jsonl")
    assert other.stored() == []


@pytest.mark.parametrize(
    "text", ["{", '{"key": 1}\n', '{"source": "", "key": {"program": "x"}}\n', "[]\n", "\xff"]
)
def test_a_file_that_is_no_exported_library_adds_nothing(library, tmp_path, text):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    library.put(entry())
    library.export_to(good)
    bad.write_text(good.read_text() + text, encoding="latin-1")
    other = Library(tmp_path / "other")
    with pytest.raises(UsageError, match=re.escape(f"{bad}")) as raised:
        other.import_from(bad)
    assert str(raised.value).count("remedy") == 1
    assert other.stored() == []


def test_an_entry_is_removed_with_its_source_once_no_writer_can_need_it(library):
    library.put(entry())
    library.put(entry("gelu", source="# another\n"))
    library.remove([key().digest])
    assert library.get(key()) is None
    folder = library.folder / SOURCES
    assert len(list(folder.iterdir())) == 2, "a writer may be about to add the row"
    for path in folder.iterdir():
        os.utime(path, (time.time() - 2 * STALE_S,) * 2)
    library.remove([])
    assert [path.read_text() for path in folder.iterdir()] == ["# another\n"]
    assert library.get(key("gelu")) is not None


def put_many(folder, writer):
    library = Library(folder)
    for number in range(20):
        library.put(entry(f"program {number}", source=f"# {writer} {number}\n", limit=writer))


@pytest.mark.slow
def test_writers_work_at_once(tmp_path):
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(put_many, [tmp_path] * 4, range(4)))
    library = Library(tmp_path)
    assert [stored.problem for stored in library.stored()] == [""] * 20
    for number in range(20):
        found = library.get(key(f"program {number}"))
        assert found.source == f"# {found.limit} {number}\n", "row and source are of one writer"


ENDLESS = """
import itertools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from entries_of_a_library import entry
from kernelwright.library.store import Library
library = Library(Path(sys.argv[1]))
for number in itertools.count():
    library.put(entry(f"program {number}", source=f"# {number}\\n" * 2000))
    print(number, flush=True)
"""


def test_a_kill_loses_the_entry_in_progress_alone(tmp_path):
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", ENDLESS, str(tmp_path), here]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        last = -1
        while last < 25:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *map(int, writer.stdout.read().split())])
    library = Library(tmp_path)
    stored = library.stored()
    assert [each.problem for each in stored] == [""] * len(stored)
    assert len(stored) in (last + 1, last + 2)
    library.put(replace(entry("later"), created_s=2.0))
    assert library.get(key("later")) is not None
