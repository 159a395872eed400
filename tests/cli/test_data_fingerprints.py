"""`kernelwright data fingerprints`: the file, the table, what a recipe makes of it."""

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


def test_a_task_is_written_and_avoided(run, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    file = tmp_path / "suite.json"
    done = run("data", "fingerprints", tmp_path / "task.py", "--out", file)
    assert done.code == 0
    assert "task.py" in done.out
    assert not is_benchmark(parse(TASK))
    assert is_benchmark(parse(TASK), (str(file),))
