"""The wheel: a clean install of it runs, and its metadata says where help is."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import torch
import torch.nn.functional as F

def get_inputs():
    return [torch.randn(8, 64)]

def fused_operator(x0):
    return [F.gelu(x0 + 1.0)]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, built without network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*build, "-q", "-w", folder, ROOT], check=True, cwd=folder)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel):
    """A folder with the installed wheel. Its packages come before this checkout's."""
    folder = wheel.parent / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", folder, wheel], check=True)
    return folder


def run(installed, *arguments):
    """Run Python with the installed wheel, outside of the checkout."""
    command = [sys.executable, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(installed)}
    folder = installed.parent
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_installed_wheel_optimizes_a_program(installed):
    program = installed.parent / "program.py"
    program.write_text(PROGRAM)
    print_file = "import kernelwright; print(kernelwright.__file__)"
    assert Path(run(installed, "-c", print_file).strip()).is_relative_to(installed)
    main = "from kernelwright.cli.main import main; main()"
    run(installed, "-c", main, "optimize", program, "--policy", "teacher", "--out", "result")
    result = installed.parent / "result"
    assert "@triton.jit" in (result / "optimized.py").read_text()
    assert "</html>" in (result / "report.html").read_text()


def test_the_wheel_holds_the_model_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("model.safetensors") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "results/", "docs/"))]


def test_the_metadata_names_urls_versions_and_audience(wheel):
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL")}
    assert labels >= {"Homepage", "Documentation", "Changelog", "Issues"}
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
    torch = [line for line in metadata.get_all("Requires-Dist") if line.startswith("torch")]
    assert "<" in torch[0], "torch has a tested upper bound"
