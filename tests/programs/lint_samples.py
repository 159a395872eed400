"""For each kind of finding, programs that have it and near neighbours that have not."""

from kernelwright.programs.program import Program
from kernelwright.programs.text import parse


def program(inputs: list[str], body: list[str], result: str = "") -> Program:
    """A program of these draws and statements; it returns the last statement's target."""
    names = ", ".join(f"x{i}" for i in range(len(inputs)))
    result = result or body[-1].partition(" = ")[0]
    lines = ["import torch", "import torch.nn.functional as F", "def get_inputs():"]
    lines += [f"    x{i} = {draw}" for i, draw in enumerate(inputs)]
    lines += [f"    return [{names}]", f"def fused_operator({names}):"]
    lines += [f"    {line}" for line in body]
    return parse("\n".join([*lines, f"    return [{result}]", ""]))


NORMAL, UNIFORM = "torch.randn(64, 32)", "torch.rand(64, 32)"
WEIGHT = "torch.randn(96, 32) * 0.2"
LINEAR = "a = F.linear(x0, x1)"

SAMPLES: dict[str, tuple[Program, Program]] = {
    "constant_output": (
        program([NORMAL], ["a = torch.relu(x0)", "b = torch.clamp(a, max=0.0)"]),
        program([NORMAL], ["a = torch.relu(x0)", "b = torch.clamp(a, max=1.0)"]),
    ),
    "zero_passes": (
        program(["torch.randn(4, 8192)"], ["a = torch.softmax(x0, dim=1)"]),
        program(["torch.randn(1024, 8)"], ["a = torch.softmax(x0, dim=1)"]),
    ),
    "constant_passes": (
        program(
            ["torch.rand(512, 512)", "torch.rand(512, 512)"],
            ["a = F.mse_loss(x0, x1)", "b = a + 1.0"],
        ),
        program(
            ["torch.rand(4, 4)", "torch.rand(4, 4)"], ["a = F.mse_loss(x0, x1)", "b = a + 1.0"]
        ),
    ),
    "identity": (
        program([UNIFORM], ["a = torch.relu(x0)"]),
        program([NORMAL], ["a = torch.relu(x0)"]),
    ),
    "affine": (
        program([UNIFORM], ["a = F.hardsigmoid(x0)"]),
        program([NORMAL + " * 4.0"], ["a = F.hardsigmoid(x0)"]),
    ),
    "mean_passes": (
        program(
            [f"torch.rand(2, 128, 16) * {s}" for s in ("0.1", "0.1", "1.0")],
            ["a = F.scaled_dot_product_attention(x0, x1, x2)"],
        ),
        program(
            [f"torch.randn(2, 128, 16) * {s}" for s in ("2.0", "2.0", "1.0")],
            ["a = F.scaled_dot_product_attention(x0, x1, x2)"],
        ),
    ),
    "saturated": (
        program(["torch.rand(16, 4096)"], ["a = torch.cumprod(x0, dim=1)"]),
        program(["torch.rand(16, 32)"], ["a = torch.cumprod(x0, dim=1)"]),
    ),
    "ignores_input": (
        program([NORMAL, NORMAL + " * 0.00001"], ["a = torch.sigmoid(x0)", "b = a + x1"]),
        program([NORMAL, NORMAL], ["a = torch.sigmoid(x0)", "b = a + x1"]),
    ),
    "constant_input": (
        program([NORMAL, "torch.ones(32)"], ["a = torch.sigmoid(x0)", "b = a * x1"]),
        program([NORMAL, "torch.randn(32)"], ["a = torch.sigmoid(x0)", "b = a * x1"]),
    ),
    "ignores_operator": (
        program(
            [NORMAL, WEIGHT],
            [LINEAR, "b = torch.softmax(a, dim=1)", "c = b * 0.001", "d = torch.sigmoid(x0)",
             "e = torch.sum(d, dim=1, keepdim=True)", "f = c + e"],
        ),
        program(
            [NORMAL, WEIGHT],
            [LINEAR, "b = torch.softmax(a, dim=1)", "c = b * 10.0", "d = torch.sigmoid(x0)",
             "e = torch.sum(d, dim=1, keepdim=True)", "f = c + e"],
        ),
    ),
    "idle_operator": (
        program([NORMAL, WEIGHT], [LINEAR, "b = torch.clamp(a, max=90.0)", "c = torch.tanh(b)"]),
        program([NORMAL, WEIGHT], [LINEAR, "b = torch.clamp(a, max=0.5)", "c = torch.tanh(b)"]),
    ),
    "subsampled": (
        program(
            ["torch.rand(8192, 4)", "torch.randn(4)"],
            ["a = x0 + x1", "b = torch.mean(a, dim=0)", "c = torch.sin(b)"],
        ),
        program(
            ["torch.rand(16, 4)", "torch.randn(4)"],
            ["a = x0 + x1", "b = torch.mean(a, dim=0)", "c = torch.sin(b)"],
        ),
    ),
    "random_reference": (
        program([NORMAL], ["a = F.dropout(x0, p=0.2)"]),
        program([NORMAL], ["a = F.dropout(x0, p=0.2, training=False)", "b = torch.sin(a)"]),
    ),
    "not_finite": (
        program([NORMAL], ["a = torch.log(x0)"]),
        program(["torch.rand(64, 32) + 0.5"], ["a = torch.log(x0)"]),
    ),
    "integer_ties": (
        program([NORMAL], ["a = torch.round(x0)", "b = torch.argmax(a, dim=1)"]),
        program([NORMAL], ["a = torch.sin(x0)", "b = torch.argmax(a, dim=1)"]),
    ),
    "integer_slack": (
        program(["torch.randn(16, 4096)"], ["a = torch.argmax(x0, dim=1)"]),
        program(["torch.randn(16, 16)"], ["a = torch.argmax(x0, dim=1)"]),
    ),
    "removable_heavy_operator": (
        program([NORMAL, WEIGHT], [LINEAR, "b = a / 2.0", "c = torch.sum(b, dim=1)"]),
        program([NORMAL, WEIGHT], [LINEAR, "b = torch.relu(a)", "c = torch.sum(b, dim=1)"]),
    ),
    "discarded_result": (
        program(["torch.randn(64, 64)"] * 2, ["a = torch.matmul(x0, x1)", "b = torch.tril(a)"]),
        program(["torch.randn(64, 64)"] * 2, ["a = torch.tril(x0)", "b = torch.matmul(a, x1)"]),
    ),
    "unused_result": (
        program([NORMAL], ["a = torch.sin(x0)", "b = torch.tanh(x0)"]),
        program([NORMAL], ["a = torch.sin(x0)", "b = torch.tanh(a)"]),
    ),
    "cancelled_operator": (
        program(
            [NORMAL, "torch.randn(96, 32)", "torch.randn(96)"],
            ["a = F.linear(x0, x1, x2)",
             "b = F.batch_norm(a, running_mean=None, running_var=None, training=True)"],
        ),
        program(
            [NORMAL, "torch.randn(96, 32)", "torch.randn(96)"],
            ["a = F.linear(x0, x1, x2)", "b = F.layer_norm(a, normalized_shape=(96,))"],
        ),
    ),
    "size_one_reduction": (
        program([NORMAL], ["a = torch.amax(x0, dim=1, keepdim=True)", "b = torch.mean(a, dim=1)"]),
        program([NORMAL], ["a = torch.amax(x0, dim=1, keepdim=True)", "b = torch.mean(a, dim=0)"]),
    ),
    "redundant_operator": (
        program([NORMAL], ["a = torch.sigmoid(x0)", "b = torch.clamp(a, min=0.0, max=1.0)"]),
        program([NORMAL], ["a = torch.sigmoid(x0)", "b = torch.clamp(a, min=0.1, max=1.0)"]),
    ),
    "repeated_operator": (
        program([NORMAL], ["a = F.mish(x0)", "b = a * 2.0", "c = F.mish(b)"]),
        program([NORMAL], ["a = F.mish(x0)", "b = a * 2.0", "c = torch.tanh(b)"]),
    ),
    "foldable_operators": (
        program([NORMAL, WEIGHT], [LINEAR, "b = a + a", "c = torch.sin(b)"]),
        program([NORMAL, NORMAL], ["a = torch.tanh(x0)", "b = a + x1", "c = torch.sin(b)"]),
    ),
}  # fmt: skip
"""Kind -> (a program that has it, one that has not)."""
