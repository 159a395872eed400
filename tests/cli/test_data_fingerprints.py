"""`kernelwright data fingerprints`: the file, the table, what a recipe makes of it."""

from cli_runs import exit_code

from kernelwright.programs.text import parse
from kernelwright.synth.benchmarks import is_benchmark

TASK = """
import torch

def get_inputs():
    x0 = torch.randn((8, 4))
    return [x0]

def fused_operator(x0):
    t0 = torch.sin(x0)
    t1 = torch.expm1(t0)
    return [t1]
"""


def test_a_task_is_written_and_avoided(tmp_path, capsys):
    (tmp_path / "task.py").write_text(TASK)
    file = tmp_path / "suite.json"
    assert exit_code(["data", "fingerprints", str(tmp_path / "task.py"), "--out", str(file)]) == 0
    assert "task.py" in capsys.readouterr().out
    assert not is_benchmark(parse(TASK))
    assert is_benchmark(parse(TASK), (str(file),))
