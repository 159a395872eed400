"""Layers of torch.nn become operator calls, none stays opaque, and they compute the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.reference import run
from kernelwright.programs.text import parse, to_text

X1, X2, X3 = ((2, 4, 9), (2, 4, 8, 9), (2, 4, 5, 6, 7))


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Several(nn.Module):
    """Layers side by side, each on inputs of its own: one export instead of one for each."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, inputs):
        return [layer(*args) for layer, args in zip(self.layers, inputs, strict=True)]


NORMS = (
    (nn.BatchNorm2d(4).eval(), X2),
    (nn.BatchNorm1d(4, affine=False).eval(), X1),
    (nn.BatchNorm3d(4, track_running_stats=False), X3),
    (nn.BatchNorm2d(4), X2),
    (nn.InstanceNorm2d(4, affine=True), X2),
    (nn.InstanceNorm1d(4, track_running_stats=True).eval(), X1),
    (nn.GroupNorm(2, 4), X3),
    (nn.LayerNorm((8, 9)), X2),
    (nn.RMSNorm(9), X1),
    (nn.LocalResponseNorm(2), X2),
    (nn.Dropout(0.5).eval(), X1),
)
POOLS = (
    (nn.MaxPool1d(3, 2, 1, ceil_mode=True), X1),
    (nn.MaxPool2d(2), X2),
    (nn.MaxPool3d(2, dilation=2, stride=1), X3),
    (nn.AvgPool1d(2), X1),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), X2),
    (nn.AvgPool3d((2, 1, 3)), X3),
    (nn.LPPool2d(2, 3), X2),
    (nn.AdaptiveAvgPool2d((None, 3)), X2),
    (nn.AdaptiveMaxPool3d(2), X3),
    (nn.Upsample(scale_factor=2), X3),
    (nn.Upsample(size=(5, 20), mode="bilinear", align_corners=True), X2),
    (Calls(lambda x: F.interpolate(x, (5, 4), mode="bicubic", antialias=True)), X2),
)
CONVOLUTIONS = (
    (nn.Conv1d(4, 6, 3, padding="same", groups=2), X1),
    (nn.Conv2d(4, 6, 3, 2, 1), X2),
    (nn.Conv3d(4, 6, 2, bias=False, padding="valid"), X3),
    (nn.ConvTranspose1d(4, 6, 3, 2), X1),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), X2),
    (nn.ConvTranspose3d(4, 6, 2, groups=2), X3),
    (Calls(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True)), X2, X2),
)
LOSSES = (
    (nn.MSELoss(reduction="none"), X1, X1),
    (nn.L1Loss(), X1, X1),
    (nn.HuberLoss(delta=2.0), X1, (9,)),
    (nn.SmoothL1Loss(reduction="sum"), X1, X1),
    (nn.KLDivLoss(reduction="batchmean", log_target=True), X1, X1),
    (nn.CrossEntropyLoss(label_smoothing=0.1), X1, X1),
    (nn.HingeEmbeddingLoss(), X1, X1),
    (nn.BCEWithLogitsLoss(pos_weight=torch.rand(9)), X1, X1),
    (nn.TripletMarginLoss(swap=True), X1, X1, X1),
    (nn.CosineSimilarity(dim=-1), X1, X1),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers",
    [NORMS, POOLS, CONVOLUTIONS, LOSSES],
    ids=["norms", "pools", "convolutions", "losses"],
)
def test_layers_lower_to_operators_that_compute_the_same(layers):
    torch.manual_seed(0)
    module = Several([layer for layer, *_ in layers])
    args = ([tuple(torch.randn(shape) for shape in shapes) for _, *shapes in layers],)
    lowered = lower(module, args)
    assert [call.op for call in lowered.program.calls if call.is_extern] == []
    assert parse(to_text(lowered.program)) == lowered.program
    results = lowered.rebuild(run(lowered.program, lowered.gather(module, args)))
    torch.testing.assert_close(results, module(*args))
