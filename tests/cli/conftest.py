"""Settings of the tests of verbs."""

from pathlib import Path

import pytest

from kernelwright.cli import failures


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
