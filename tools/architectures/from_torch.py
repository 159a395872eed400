"""Classic modules of torch.nn."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tools.architectures.architecture import BATCH, Architecture, Draw, Example, drawn

_SEQUENCE = Draw((BATCH, 12, 32))
_STEP = Draw((BATCH, 32))

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "transformer": (lambda: nn.Transformer(32, 4, 2, 2, 64, batch_first=True), (_SEQUENCE,) * 2),
    "transformer_encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
        (_SEQUENCE,),
    ),
    "transformer_decoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), 2),
        (_SEQUENCE,) * 2,
    ),
    "multihead_attention": (
        lambda: nn.MultiheadAttention(32, 4, batch_first=True),
        (_SEQUENCE,) * 3,
    ),
    "lstm": (lambda: nn.LSTM(32, 32, 2, batch_first=True), (_SEQUENCE,)),
    "gru": (lambda: nn.GRU(32, 32, 2, batch_first=True, bidirectional=True), (_SEQUENCE,)),
    "rnn": (lambda: nn.RNN(32, 32, batch_first=True), (_SEQUENCE,)),
    "lstm_cell": (lambda: nn.LSTMCell(32, 32), (_STEP,)),
    "gru_cell": (lambda: nn.GRUCell(32, 32), (_STEP,)),
    "rnn_cell": (lambda: nn.RNNCell(32, 32), (_STEP,)),
    "embedding_bag": (lambda: nn.EmbeddingBag(99, 32, mode="mean"), (Draw((BATCH, 12), 99),)),
    "bilinear": (lambda: nn.Bilinear(32, 32, 16), (_STEP, _STEP)),
    "adaptive_softmax": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(32, 99, [20, 50]),
        (_STEP, Draw((BATCH,), 99)),
    ),
    "ctc_loss": (
        lambda: nn.CTCLoss(),
        (Draw((12, BATCH, 9)), Draw((BATCH, 5), 8), (12, 12), (5, 5)),
    ),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 32)),
        (_STEP,),
    ),
}
"""Name -> (what makes the module, inputs)."""


def architectures() -> Iterator[Architecture]:
    """Every module of the table."""
    for name, (make, inputs) in MODULES.items():

        def build(
            make: Callable[[], nn.Module] = make, inputs: tuple[Any, ...] = inputs
        ) -> Example:
            torch.manual_seed(0)
            return Example(make().eval(), drawn(inputs))

        yield Architecture(f"torch/{name}", "torch.nn", build)
