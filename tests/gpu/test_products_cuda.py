"""Products of sizes that 16 does not divide are not much slower than products of sizes next to
these."""

import importlib.util
from statistics import median

import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.teacher.writer import write
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import PAUSE_MS, stopwatch


def product_ms(m, n, k, folder):
    """The time of the teacher's first kernel for an (m, k) by (k, n) product in bfloat16."""
    b = Builder()
    sides = [b.input(TensorType(shape, "bfloat16")) for shape in ((m, k), (k, n))]
    source = write(b.program(b.call("mm", input=sides[0], mat2=sides[1])), limit=1)[0].source
    path = folder / f"product_{k}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
    torch.testing.assert_close(module.fused_operator(x, y)[0], x @ y, atol=0.5, rtol=0.05)
    time_cold = stopwatch()
    with gpu_lock(0):
        return median(
            time_cold(lambda: module.fused_operator(x, y), PAUSE_MS).time_ms for _ in range(9)
        )


def test_sizes_that_16_does_not_divide_cost_little(tmp_path):
    aligned_ms = product_ms(512, 1008, 1008, tmp_path)
    assert product_ms(512, 1002, 1002, tmp_path) < 2.0 * aligned_ms
