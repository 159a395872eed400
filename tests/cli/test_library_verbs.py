"""`kernelwright library`."""

import json

import pytest
from entries_of_a_library import entry, stays

from kernelwright.cli.main import run
from kernelwright.library.store import SOURCES, Library


@pytest.fixture
def folder(tmp_path):
    library = Library(tmp_path / "kernels")
    library.put(entry(reason="2.00x of torch.compile"))
    library.put(stays("gelu", reason="stays PyTorch"))
    return tmp_path / "kernels"


def answer(capsys, *words):
    code = run(["library", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_list_has_every_entry(folder, capsys):
    code, out, _ = answer(capsys, "list", "--library", folder)
    assert code == 0
    assert "accepted" in out
    assert "none" in out
    assert out.rstrip().endswith("2 entries, 1 with a kernel")
    _, out, _ = answer(capsys, "list", "--library", folder, "--json")
    facts = json.loads(out)
    assert {fact["kernel"] for fact in facts} == {"accepted", "none"}
    assert all("program" not in fact for fact in facts)


def test_an_entry_is_shown_by_how_its_name_begins(folder, capsys):
    name = Library(folder).stored()[0].digest
    code, out, _ = answer(capsys, "show", name[:8], "--library", folder)
    assert code == 0
    assert name in out
    _, out, _ = answer(capsys, "show", name[:8], "--library", folder, "--json")
    assert json.loads(out)["program"] in ("relu", "gelu")
    code, _, err = answer(capsys, "show", "nothing", "--library", folder)
    assert code == 2
    assert "0 entries have a name" in err


def test_a_damaged_entry_is_listed_and_pruned(folder, capsys):
    next((folder / SOURCES).glob("*.py")).write_text("edited")
    _, out, _ = answer(capsys, "list", "--library", folder)
    assert "it was damaged or edited" in out
    code, out, _ = answer(capsys, "prune", "--library", folder)
    assert (code, out.strip()) == (0, "1 entries were deleted")
    assert len(Library(folder).stored()) == 1


def test_prune_deletes_what_its_options_name(folder, capsys):
    _, out, _ = answer(capsys, "prune", "--library", folder, "--without-kernel")
    assert out.strip() == "1 entries were deleted"
    _, out, _ = answer(capsys, "prune", "--library", folder, "--older-than", "1")
    assert out.strip() == "1 entries were deleted", "both are of 1970"


def test_entries_go_to_another_library(folder, tmp_path, capsys):
    file, other = tmp_path / "all.jsonl", tmp_path / "other"
    assert answer(capsys, "export", file, "--library", folder)[0] == 0
    code, out, _ = answer(capsys, "import", file, "--library", other)
    assert (code, out.strip()) == (0, "2 entries were added, 0 were known")
    _, out, _ = answer(capsys, "list", "--library", other, "--json")
    assert {fact["kernel"] for fact in json.loads(out)} == {"not judged here", "none"}


def test_a_mistyped_folder_is_not_made(tmp_path, capsys):
    code, _, err = answer(capsys, "list", "--library", tmp_path / "none")
    assert code == 2
    assert "there is no library" in err
    assert not (tmp_path / "none").exists()


def test_without_a_folder_the_error_says_how_to_name_it(capsys, monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_LIBRARY", raising=False)
    code, _, err = answer(capsys, "list")
    assert code == 2
    assert "--library" in err


def test_the_environment_names_the_folder(folder, capsys, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_LIBRARY", str(folder))
    assert answer(capsys, "list")[0] == 0
