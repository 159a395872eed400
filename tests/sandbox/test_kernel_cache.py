"""Compiled kernels: read from several folders, written to one that is a candidate's own."""

import json
import subprocess
import sys

import pytest
import torch
from sample_candidates import ADD

from kernelwright.sandbox.host import launchers
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import Limits

ARGUMENTS = [torch.empty(48, 80, device="meta")] * 2
IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from kernelwright.sandbox.guest import kernel_cache
from triton.runtime.cache import get_cache_manager
own, ours, theirs = map(Path, sys.argv[1:])
kernel_cache.install(own / "cache", [ours], is_shared=False)
kernel_cache.renew("cache_1", str(theirs))
cache = get_cache_manager("00" * 5)
"""


def in_another_process(code, *folders):
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS + code, *map(str, folders)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture
def folders(tmp_path):
    made = [tmp_path / name for name in ("own", "ours", "theirs")]
    for folder in made:
        (folder / "AAAAAAAA").mkdir(parents=True)
    return made


def test_ours_come_before_theirs_and_theirs_before_what_is_compiled_here(folders):
    own, ours, theirs = folders
    for folder in (ours, theirs):
        (folder / "AAAAAAAA" / "both").write_text("")
    (theirs / "AAAAAAAA" / "theirs").write_text("")
    code = (
        "cache.put('x', 'own'); cache.put('x', 'theirs')\n"
        "for name in ('both', 'theirs', 'own', 'none'): print(cache.get_file(name))"
    )
    found = in_another_process(code, *folders)
    assert found == [
        str(ours / "AAAAAAAA" / "both"),
        str(theirs / "AAAAAAAA" / "theirs"),
        str(own / "cache_1" / "AAAAAAAA" / "own"),
        "None",
    ]


def test_libraries_are_never_taken_from_the_candidate(folders):
    _, ours, theirs = folders
    (theirs / "AAAAAAAA" / "launcher.so").write_text("")
    assert in_another_process("print(cache.get_file('launcher.so'))", *folders) == ["None"]
    (ours / "AAAAAAAA" / "launcher.so").write_text("")
    found = in_another_process("print(cache.get_file('launcher.so'))", *folders)
    assert found == [str(ours / "AAAAAAAA" / "launcher.so")]


def test_a_kernels_files_are_found_where_they_lie_now(folders):
    _, _, theirs = folders
    home = theirs / "AAAAAAAA"
    (home / "k.json").write_text("{}")
    listed = {"k.json": "/elsewhere/AAAAAAAA/k.json", "k.cubin": "/etc/passwd"}
    (home / "__grp__k.json").write_text(json.dumps({"child_paths": listed}))
    code = "for path in cache.get_group('k.json').values(): print(path)"
    assert in_another_process(code, *folders) == [str(home / "k.json")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"child_paths": 3}', '{"child_paths": [[]]}'])
def test_a_list_that_is_none_counts_as_missing(folders, text):
    (folders[2] / "AAAAAAAA" / "__grp__k.json").write_text(text)
    assert in_another_process("print(cache.get_group('k.json'))", *folders) == ["None"]


def test_what_is_compiled_of_a_candidate_is_taken_away_from_the_guest():
    with shared("compile").guest(Limits()) as guest:
        guest.load(ADD)
        signatures = guest.compile(ARGUMENTS, measures=False).signatures
        kernels = guest.take_kernels("candidate")
        assert [path.name for path in kernels.glob("*/*.cubin")] == ["add.cubin"]
        assert guest.take_kernels("candidate") is None
        guest.forget("candidate")
        guest.load(ADD)
        guest.compile(ARGUMENTS)
        again = guest.take_kernels("candidate")
        assert again != kernels
        assert len(list(again.glob("*/*.cubin"))) == 1
    assert [launchers.plain_signature(each) for each in signatures] == [
        ("*i8", "*i8", "*i8", "i32", "constexpr")
    ]


def test_nothing_compiled_is_nothing_to_take():
    with shared("compile").guest(Limits()) as guest:
        guest.load(ADD)
        assert guest.take_kernels("candidate") is None


@pytest.mark.parametrize(
    "types",
    [
        "i32",
        ["i32; system()"],
        ["tensordesc<fp16[64]>"],
        [["i32"]],
        [None],
        ["i32"] * 1000,
        {"a": "i32"},
    ],
)
def test_other_words_make_no_signature(types):
    assert launchers.plain_signature(types) is None


def test_pointers_are_alike_and_nothing_of_their_text_is_kept():
    found = launchers.plain_signature(["*fp32", "*k}; evil", "u64", "fp32", "constexpr"])
    assert found == ("*i8", "*i8", "u64", "fp32", "constexpr")


def test_a_launcher_is_built_once_where_tritons_cache_looks(tmp_path, monkeypatch):
    monkeypatch.setenv(launchers.FOLDER_VARIABLE, str(tmp_path))
    built = []

    def compiled(name, source, work):
        built.append(name)
        made = tmp_path / f"{name}.made"
        made.write_text(source)
        return made

    monkeypatch.setattr(launchers, "_compiled", compiled)
    launchers.make(("*i8", "i32"))
    launchers.make(("*i8", "i32"))
    assert built.count("cuda_utils") == 1
    code = (
        "import hashlib, triton.backends.nvidia.driver as d\n"
        "from triton.runtime.build import platform_key\n"
        "text = Path(d.__file__).with_name('driver.c').read_text() + platform_key()\n"
        "cache = get_cache_manager(hashlib.sha256(text.encode()).hexdigest())\n"
        "import sysconfig\n"
        "print(cache.get_file('cuda_utils' + sysconfig.get_config_var('EXT_SUFFIX')))"
    )
    found = in_another_process(code, tmp_path / "own", tmp_path, tmp_path / "theirs")
    assert found[0].startswith(str(tmp_path))
    assert "cuda_utils" in found[0]
