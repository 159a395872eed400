"""What a target consists of is read off its files: none of them is run."""

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.data.collect.sources import CollectTarget

MODULE = "import torch\nraise SystemExit('imported')\nclass A(torch.nn.Module): ...\n"
TASK = "import torch\nclass Model(torch.nn.Module): ...\ndef get_inputs(): ...\n"
FLAT = "def get_inputs(): ...\ndef fused_operator(x): ...\n"


@pytest.fixture
def folder(tmp_path):
    files = {
        "model.py": MODULE,
        "sub/task.py": TASK,
        "sub/flat.py": FLAT,
        "settings.py": "import torch\nWIDTH = 3\n",
        "plain.py": "class Base: ...\nclass Derived(Base): ...\n",
        "broken.py": "class A(:\n",
        "notes.txt": MODULE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_folder_gives_its_modules_and_tasks_in_order(folder):
    found = {source.name: source.kind for source in CollectTarget.find(str(folder)).sources}
    assert found == {
        "broken.py": "file",  # importing it says what is wrong
        "model.py": "file",
        "sub/flat.py": "task",
        "sub/task.py": "task",
    }
    assert list(found) == sorted(found)


def test_a_file_is_named_without_its_folder(folder):
    target = CollectTarget.find(str(folder / "sub" / "task.py"))
    assert [(s.name, s.kind) for s in target.sources] == [("task.py", "task")]
    assert target.facts() == {
        "target": "task.py", "package": None, "version": None, "licence": None,
    }  # fmt: skip


def test_an_installed_package_says_where_it_comes_from():
    target = CollectTarget.find("torch.nn.modules")
    by_name = {source.name: source.where for source in target.sources}
    assert by_name["torch/nn/modules/linear.py"] == "torch.nn.modules.linear"
    assert target.package == "torch"
    assert target.version
    assert "BSD-3-Clause" in target.licence
    assert all(not name.startswith("/") for name in by_name)


def test_one_module_of_a_package():
    sources = CollectTarget.find("torch.nn.modules.linear").sources
    assert [(s.name, s.where) for s in sources] == [
        ("torch/nn/modules/linear.py", "torch.nn.modules.linear")
    ]


def test_a_factory_is_a_source_by_itself():
    (source,) = CollectTarget.find("torch.nn:Identity").sources
    assert (source.kind, source.name) == ("factory", "torch.nn:Identity")


@pytest.mark.parametrize("spec", ["no_such_package_at_all", "no/such/file.py", "torch.no_such"])
def test_what_is_not_there_is_the_users_error(spec):
    with pytest.raises(UsageError, match="remedy"):
        CollectTarget.find(spec)
