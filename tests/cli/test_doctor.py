"""What doctor concludes from what it finds."""

import json
import sys
from types import SimpleNamespace

import pytest
from cli_runs import exit_code, verdict

from kernelwright.cli import doctor
from kernelwright.core.errors import InfraError


@pytest.fixture
def examine(monkeypatch, capsys):
    """Run doctor on a machine of our making; exit code and JSON."""

    def run(*, judge, missing=("landlock",), broken_imports=()):
        def python(code):
            if "cuda" in code or any(name in code for name in broken_imports):
                return "ImportError: broken"
            return None

        guards = {"rlimits": "limits", "landlock": "files"}
        level = SimpleNamespace(
            held=tuple(g for g in guards if g not in missing), missing=missing, is_full=not missing
        )
        monkeypatch.setattr(doctor, "_python", python)
        fake_api = SimpleNamespace(verify=judge)
        fake_probe = SimpleNamespace(
            ESSENTIAL=frozenset(), GUARDS=guards, isolation_level=lambda _device: level
        )
        monkeypatch.setitem(sys.modules, "kernelwright.verify.api", fake_api)
        monkeypatch.setitem(sys.modules, "kernelwright.sandbox.host.probe", fake_probe)
        code = exit_code(["doctor", "--json"])
        found = json.loads(capsys.readouterr().out)
        return code, {check["name"]: check for check in found["checks"]}

    return run


def accepts(*args, **options):
    return verdict(True)


def fails(*args, **options):
    raise InfraError("no guest can be started")


def refuses(*args, **options):
    return verdict(False, "errs by 1")


def test_a_machine_without_gpu_or_a_guard_is_fit_and_says_what_is_missing(examine):
    code, checks = examine(judge=accepts)
    assert code == 0
    assert not checks["gpu"]["works"]
    assert not checks["sandbox (cpu)"]["works"]
    assert "landlock (files)" in checks["sandbox (cpu)"]["remedy"]


def test_a_broken_torch_is_named_and_exits_3(examine):
    code, checks = examine(judge=accepts, broken_imports=("torch",))
    assert code == 3
    assert checks["torch"]["found"] == "ImportError: broken"
    assert "pip install" in checks["torch"]["remedy"]


def test_a_judge_that_cannot_work_exits_3_with_its_reason(examine):
    code, checks = examine(judge=fails)
    assert code == 3
    assert checks["interpreter, compile check"]["found"] == "no guest can be started"


def test_a_judge_that_refuses_a_good_kernel_exits_3(examine):
    code, checks = examine(judge=refuses)
    assert code == 3
    assert "errs by 1" in checks["interpreter, compile check"]["found"]
