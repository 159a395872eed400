"""What tests of several verbs share."""

from types import SimpleNamespace

import pytest
from cli_runs import exit_code


@pytest.fixture
def run(capsys):
    """Run the command; its exit code, stdout and stderr."""

    def command(*argv):
        code = exit_code(argv)
        streams = capsys.readouterr()
        return SimpleNamespace(code=code, out=streams.out, err=streams.err)

    return command
