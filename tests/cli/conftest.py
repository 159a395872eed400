"""What tests of several verbs share."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runs import exit_code

from kernelwright.cli import failures


@pytest.fixture
def run(capsys):
    """Run the command; its exit code, stdout and stderr."""

    def command(*argv):
        code = exit_code([*map(str, argv)])
        streams = capsys.readouterr()
        return SimpleNamespace(code=code, out=streams.out, err=streams.err)

    return command


@pytest.fixture(autouse=True)
def _no_traceback_stays(monkeypatch):
    """Remove the files with tracebacks, which verbs leave in the temporary folder for users."""
    write, names = failures._written, []

    def written(error):
        names.append(write(error))
        return names[-1]

    monkeypatch.setattr(failures, "_written", written)
    yield
    for name in filter(None, names):
        Path(name).unlink(missing_ok=True)
