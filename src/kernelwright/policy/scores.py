"""Log-probabilities of answers under a model. Importance ratios compare with these."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernelwright.policy.texts import Text, ids_and_mask, micro_batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LOGITS = 1 << 27
"""The most logits of a forward pass: half a GiB in float32."""


@torch.no_grad()
def answer_logps(
    model: "PreTrainedModel", texts: Sequence[Text], *, temperature: float
) -> list[np.ndarray]:
    """The log-probability of each token of each answer, given all tokens before it.

    On a GPU the pass is computed in bfloat16 by autocast, as the trainer computes it.

    Args:
        model: in float32.
        temperature: the temperature at which answers were drawn, above 0. Logits are divided by it.

    Returns:
        For each text an array (answer tokens,), float32.
    """
    device = model.device
    logps: list[np.ndarray] = [np.zeros(0, np.float32)] * len(texts)
    most = max(LOGITS // int(model.config.vocab_size), 1)
    for numbers in micro_batches([len(text) for text in texts], most):
        rows = [texts[number] for number in numbers]
        ids, is_answer = ids_and_mask(rows, pad_id=0)
        context = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
        tokens = torch.from_numpy(ids).to(device)
        with context:
            output: Any = model(input_ids=tokens, use_cache=False)
        # The logits after a token are the scores of the next one: both are shifted by one.
        scores = (output.logits[:, :-1].float() / temperature).log_softmax(-1)
        chosen = scores.gather(-1, tokens[:, 1:, None])[..., 0].cpu().numpy()
        for row, number in enumerate(numbers):
            logps[number] = chosen[row][is_answer[row, 1:]]
    return logps
