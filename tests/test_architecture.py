"""The layers of docs/architecture.md, as tests: imports go strictly down, start is light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "kernelwright"

# Lowest first. A package may import packages on a strictly lower line, never its own line.
LAYERS = [
    {"core"},
    {"ops", "timing", "rewards"},
    {"programs"},
    {"lint"},
    {"synth", "teacher", "policy", "sandbox"},
    {"verify"},
    {"data", "library"},
    {"search", "train"},
    {"compile", "deploy", "report"},
    {"bench"},
    {"cli"},
]
LEVEL = {package: level for level, line in enumerate(LAYERS) for package in line}
TOP = len(LAYERS)
HEAVY = {
    "trl": {"train"},
    "accelerate": {"train"},
    "datasets": {"train"},
    "peft": {"train"},
    "ortools": {"synth"},
    "pyarrow": {"synth", "train"},
    "ray": {"sandbox"},
    "vllm": {"policy"},
    "openai": {"policy"},
}
"""Third-party names that live in one folder each."""
NO_TORCH = {"core", "rewards", "report"}
GUEST_MAY_IMPORT = {"core", "timing", "sandbox"}
"""What runs beside hostile code; every judgement is verify's."""


def imports(src: Path) -> Iterator[tuple[str, str, str]]:
    """(where, our package, dotted module) for every import, lazy and TYPE_CHECKING ones too."""
    for path in sorted(src.rglob("*.py")):
        name = path.relative_to(src)
        if len(name.parts) == 1:
            continue  # kernelwright/__init__.py is the top
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}:{node.lineno}: write imports in full"
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                yield f"{name}:{node.lineno}", name.parts[0], module


def violations(src: Path) -> list[str]:
    found = []
    for where, here, module in imports(src):
        top, _, rest = module.partition(".")
        there = rest.split(".")[0]
        if top == "kernelwright" and there != here:
            if LEVEL.get(there, TOP) >= LEVEL[here] and there != "__version__":
                found.append(f"{where} reaches up to {there or 'kernelwright'}")
            if here == "sandbox" and there not in GUEST_MAY_IMPORT:
                found.append(f"{where} brings {there} beside hostile code")
        if top == "tools":
            found.append(f"{where} reaches up to tools")
        if here not in HEAVY.get(top, {here}) or (top == "torch" and here in NO_TORCH):
            found.append(f"{where} may not import {top}")
    return found


def test_imports_only_go_down():
    assert violations(SRC) == []


def test_the_check_sees_hidden_imports(tmp_path):
    bad = tmp_path / "core" / "bad.py"
    bad.parent.mkdir()
    bad.write_text("def f():\n    from kernelwright import verify\n    import torch, trl, tools\n")
    assert violations(tmp_path) == [
        "core/bad.py:2 reaches up to verify",
        "core/bad.py:3 may not import torch",
        "core/bad.py:3 may not import trl",
        "core/bad.py:3 reaches up to tools",
    ]


SIDES = {
    "guest": {"confine", "shared"},
    "host": {"confine", "shared"},
    "workers": {"confine", "shared", "host"},
    "confine": {"shared"},
    "shared": set(),
}
"""Folder of the sandbox -> the folders that its modules may import beside their own."""


def test_the_trust_line_of_the_sandbox_is_a_line_between_folders():
    crossings = []
    for where, here, module in imports(SRC):
        parts = module.split(".")
        if here != "sandbox" or parts[:2] != ["kernelwright", "sandbox"]:
            continue
        side = Path(where).parts[1]
        if parts[2] != side and parts[2] not in SIDES[side]:
            crossings.append(f"{where} imports {module}")
    assert crossings == []
    assert {path.name for path in (SRC / "sandbox").iterdir() if path.is_dir()} - {
        "__pycache__"
    } == SIDES.keys()


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in SRC.glob("*/__init__.py")}
    assert packages <= LEVEL.keys()


def test_importing_the_package_and_the_cli_loads_nothing_heavy():
    heavy = {"torch", "transformers", "tokenizers", "safetensors", "openai"}
    loaded = f"not {heavy}.isdisjoint(sys.modules)"
    code = f"import sys, kernelwright, kernelwright.cli.main; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
