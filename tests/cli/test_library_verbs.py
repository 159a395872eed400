"""`kernelwright library`."""

import json

import pytest
from entries_of_a_library import entry, stays

from kernelwright.library.store import SOURCES, Library


@pytest.fixture
def folder(tmp_path):
    library = Library(tmp_path / "kernels")
    library.put(entry(reason="2.00x of torch.compile"))
    library.put(stays("gelu", reason="stays PyTorch"))
    return tmp_path / "kernels"


@pytest.fixture
def library(run):
    return lambda *argv: run("library", *argv)


def test_a_list_has_every_entry(folder, library):
    done = library("list", "--library", folder)
    assert done.code == 0
    assert "accepted" in done.out
    assert "none" in done.out
    assert done.out.rstrip().endswith("2 entries, 1 with a kernel")
    done = library("list", "--library", folder, "--json")
    facts = json.loads(done.out)
    assert {fact["kernel"] for fact in facts} == {"accepted", "none"}
    assert all("program" not in fact for fact in facts)


def test_an_entry_is_shown_by_how_its_name_begins(folder, library):
    name = Library(folder).stored()[0].digest
    done = library("show", name[:8], "--library", folder)
    assert done.code == 0
    assert name in done.out
    done = library("show", name[:8], "--library", folder, "--json")
    assert json.loads(done.out)["program"] in ("relu", "gelu")
    done = library("show", "nothing", "--library", folder)
    assert done.code == 2
    assert "0 entries have a name" in done.err


def test_a_damaged_entry_is_listed_and_pruned(folder, library):
    next((folder / SOURCES).glob("*.py")).write_text("edited")
    done = library("list", "--library", folder)
    assert "it was damaged or edited" in done.out
    done = library("prune", "--library", folder)
    assert (done.code, done.out.strip()) == (0, "1 entries were deleted")
    assert len(Library(folder).stored()) == 1


def test_prune_deletes_what_its_options_name(folder, library):
    done = library("prune", "--library", folder, "--without-kernel")
    assert done.out.strip() == "1 entries were deleted"
    done = library("prune", "--library", folder, "--older-than", "1")
    assert done.out.strip() == "1 entries were deleted", "both are of 1970"


def test_entries_go_to_another_library(folder, tmp_path, library):
    file, other = tmp_path / "all.jsonl", tmp_path / "other"
    assert library("export", file, "--library", folder).code == 0
    done = library("import", file, "--library", other)
    assert (done.code, done.out.strip()) == (0, "2 entries were added, 0 were known")
    done = library("list", "--library", other, "--json")
    assert {fact["kernel"] for fact in json.loads(done.out)} == {"not judged here", "none"}


def test_a_mistyped_folder_is_not_made(tmp_path, library):
    done = library("list", "--library", tmp_path / "none")
    assert done.code == 2
    assert "there is no library" in done.err
    assert not (tmp_path / "none").exists()


def test_without_a_folder_the_error_says_how_to_name_it(library, monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_LIBRARY", raising=False)
    done = library("list")
    assert done.code == 2
    assert "--library" in done.err


def test_the_environment_names_the_folder(folder, library, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_LIBRARY", str(folder))
    assert library("list").code == 0
