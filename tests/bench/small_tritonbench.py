"""A small checkout in TritonBench's layout, with files of our own, and predictions for it."""

import json

RULER = "#" * 146
SCALED = """
import torch

def scaled_sum(left, right, scale=1.0):
    return left + scale * right
"""
SCALED_TESTS = """
import torch

def test_scaled_sum():
    one = torch.randn(4, 8, device="cuda")
    two = torch.randn(4, 8, device="cuda")
    return {"plain": scaled_sum(one, two), "half": scaled_sum(one, two, scale=0.5)}

test_results = test_scaled_sum()
print(sorted(test_results))
"""
STEPPED = """
import torch

def stepped(parameters, rate):
    return torch.optim.SGD(parameters, lr=rate)
"""
STEPPED_TESTS = """
import torch

def test_stepped():
    return stepped([torch.zeros(3, device="cuda", requires_grad=True)], 0.1)

test_stepped()
"""
NOISY = """
import torch

def noisy(values):
    return torch.nn.functional.dropout(values, p=0.5)
"""
NOISY_TESTS = """
noisy(torch.ones(64, device="cuda"))
"""
DOUBLED = """
import torch
import triton
import triton.language as tl

@triton.jit
def doubled_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(y_ptr + place, 2 * x, mask=place < n)

def doubled(x):
    y = torch.empty_like(x)
    doubled_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
DOUBLED_TESTS = """
import torch

def test_doubled():
    print(doubled(torch.arange(100, device="cuda").float()).sum().item())
    return doubled(torch.randn(3, 7, device="cuda"))

test_doubled()
"""
SCALED_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def scaled_kernel(a_ptr, b_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + place, mask=place < n)
    b = tl.load(b_ptr + place, mask=place < n)
    tl.store(y_ptr + place, a + scale * b, mask=place < n)

def scaled_sum(left, right, scale=1.0):
    y = torch.empty_like(left)
    n = left.numel()
    scaled_kernel[(triton.cdiv(n, 64),)](left, right, y, scale, n, BLOCK=64)
    return y
"""
FORGETS_SCALE = SCALED_KERNEL.replace("a + scale * b", "a + b")
"""Runs and prints as the golden file does, and is wrong where the scale is not 1."""


def file_text(golden, tests):
    return f"{golden}\n{RULER}\n{tests}"


T_FILES = {
    "scaled_sum.py": file_text(SCALED, SCALED_TESTS),
    "stepped.py": file_text(STEPPED, STEPPED_TESTS),
    "noisy.py": file_text(NOISY, NOISY_TESTS),
    "torn.py": "def torn(:\n",
}
G_FILES = {"doubled.py": file_text(DOUBLED, DOUBLED_TESTS)}


def write_checkout(root):
    data = root / "data"
    for channel, files in (("T", T_FILES), ("G", G_FILES)):
        folder = data / f"TritonBench_{channel}_v1"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    about = [{"file": name, "description": f"Does what {name} does."} for name in T_FILES]
    (data / "TritonBench_T_v1.jsonl").write_text(json.dumps(about))
    about = [{"file": "doubled.py", "output": DOUBLED}]
    (data / "TritonBench_G_v1.json").write_text(json.dumps(about))
    asked = [{"instruction": "Double every value.", "input": "", "output": DOUBLED}]
    (data / "TritonBench_G_comp_alpac_v1.json").write_text(json.dumps(asked))
    return root


def write_predictions(folder, **codes):
    folder.mkdir()
    for stem, code in codes.items():
        (folder / f"{stem}.py").write_text(code)
    return folder
