"""`python -m tools.pages` writes the pages that it is given the names of."""

import sys

import pytest

from tools.pages import __main__ as pages
from tools.pages import static_rules


def test_a_named_page_is_written_and_no_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pages", "static-rules"])
    pages.main()
    assert [path.name for path in tmp_path.iterdir()] == ["static-rules.md"]
    assert (tmp_path / "static-rules.md").read_text() == static_rules.page()
    assert capsys.readouterr().out == "written  static-rules\n"


def test_an_unknown_page_writes_nothing_and_names_the_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pages", "static-rules", "no-such-page"])
    with pytest.raises(SystemExit) as ended:
        pages.main()
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []
    assert "no page no-such-page; there are records, static-rules" in capsys.readouterr().err


def test_missing_records_are_a_message_and_no_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pages", "verifier-matrix"])
    with pytest.raises(SystemExit) as ended:
        pages.main()
    assert ended.value.code == 2
    assert "verifier-matrix: " in capsys.readouterr().err
