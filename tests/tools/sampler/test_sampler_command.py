"""`python -m tools.sampler`: records, and errors as a message and an exit code."""

import pytest

from kernelwright.core import record
from tools.sampler.__main__ import main


@pytest.mark.slow
def test_programs_of_a_level_become_a_record(tmp_path):
    out = tmp_path / "sampler.jsonl"
    assert main(["-o", str(out), "--level", "1", "--num", "3", "--workers", "1"]) == 0
    (line,) = record.read(out)
    assert (line["record"], line["level"], line["draws"]) == ("programs", 1, 3)


def test_a_wrong_call_is_a_message_with_a_remedy(tmp_path, capsys):
    assert main(["-o", str(tmp_path / "x"), "--recipe", "no.toml"]) == 2
    assert main(["--level", "1"]) == 2
    said = capsys.readouterr().err
    assert "no.toml: there is no such file or folder" in said
    assert "Traceback" not in said
