"""Decoding steps. A step draws the next token of many rows on the device. Steps run as CUDA graphs
if possible."""

import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch
from transformers import PreTrainedModel

from kernelwright.core.errors import UsageError
from kernelwright.policy.draw import draw
from kernelwright.policy.policy import Sampling
from kernelwright.policy.rows import Rows
from kernelwright.policy.slots import GROUPED, SlotCache, cache_keyword
from kernelwright.timing.graphs import capturing

WINDOWED, FULL = "sliding_attention", "full_attention"
CAPTURING = "captur"
"""A part of every message of CUDA and PyTorch about work that cannot be captured in a graph."""


class DecodingSteps:
    """The steps of a model. A captured step reads rows and cache at the addresses at which they
    were during the capture. Call `forget` before these addresses change."""

    def __init__(self, model: PreTrainedModel, *, stops: Collection[int]) -> None:
        """
        Args:
            stops: tokens that end a row.

        Raises:
            UsageError: the model attends in a way that fixed slots cannot serve.
        """
        self._model, self._config = model, model.config.get_text_config()
        self._cache_keyword = cache_keyword(model)
        self._kinds = _attention_kinds(self._config)
        device = model.device
        self._stops = torch.tensor(sorted(stops), dtype=torch.long, device=device)
        self._temperature = torch.ones((), device=device)
        self._top_p = torch.ones((), device=device)
        self._is_greedy, self._has_nucleus = True, False
        self.can_capture = device.type == "cuda"
        self.captured: dict[tuple[int, int, bool, bool], torch.cuda.CUDAGraph] = {}
        """By rows, slots that are read, and how tokens are chosen."""

    def aim(self, sampling: Sampling) -> None:
        """Set temperature and top_p of the next steps."""
        # In place: captured steps read both numbers from the device's memory.
        self._temperature.fill_(sampling.temperature or 1.0)
        self._top_p.fill_(sampling.top_p)
        self._is_greedy, self._has_nucleus = sampling.temperature == 0.0, sampling.top_p < 1.0

    def forget(self) -> None:
        """Free the captured steps and their memory."""
        self.captured.clear()

    def advance(self, rows: Rows, cache: SlotCache, bucket: int) -> None:
        """Take a step, and capture the step for later if possible.

        The first step of a size runs without a capture. Libraries allocate memory and tune at
        their first call, which a capture does not allow.

        Args:
            rows: the first rows of the cache; changed in place.
            bucket: slots that attention reads.

        Raises:
            RuntimeError: the step failed for another reason than being captured.
        """
        key = (len(rows.token), bucket, self._is_greedy, self._has_nucleus)
        if key in self.captured:
            self.captured[key].replay()
            return
        self._step(rows, cache, bucket)
        if not self.can_capture:
            return
        # Captured steps never run at once, so all of them share one graph's memory.
        pool = next((graph.pool() for graph in self.captured.values()), None)
        try:
            self.captured[key] = _captured(lambda: self._step(rows, cache, bucket), pool)
        except RuntimeError as error:
            if CAPTURING not in str(error):
                raise
            self.can_capture = False
            # Where capture ends by what went wrong before, that is what says why.
            why = error.__context__ or error
            first = (str(why).strip().splitlines() or [type(why).__name__])[0]
            warnings.warn(
                f"steps of {self._config.model_type} are not captured and take longer: {first}",
                stacklevel=2,
            )

    def _step(self, on: Rows, cache: SlotCache, bucket: int) -> None:
        cache.aim_step(on.position, bucket)
        logits = self._model(
            input_ids=on.token[:, None],
            position_ids=on.position[:, None],
            attention_mask=self._mask(on.position, bucket),
            use_cache=True,
            **{self._cache_keyword: cache},
        ).logits[:, -1]
        if self._is_greedy:
            chosen = logits.argmax(dim=-1)
        else:
            number = on.uniform.gather(1, on.count[:, None])[:, 0]
            top_p = self._top_p if self._has_nucleus else None
            chosen = draw(logits, number, self._temperature, top_p)
        on.written.scatter_(1, on.count[:, None], chosen[:, None])
        # No branch: a graph does the same for every row. Rows that are done stay as they are.
        runs = ~on.done
        on.token.copy_(torch.where(runs, chosen, on.token))
        on.count += runs
        on.position += runs
        on.done |= (chosen[:, None] == self._stops).any(dim=-1) | (on.count >= on.limit)

    def _mask(self, position: torch.Tensor, bucket: int) -> Any:
        """The mask of a step, (rows, 1, 1, bucket): true on the slots that each row attends to.

        Models with several kinds of layers get a mask for each kind. Attention other than ours gets
        numbers to add to its scores in place of a mask of bools.
        """
        slot = torch.arange(bucket, device=position.device)
        seen = slot <= position[:, None]
        masks = {FULL: seen[:, None, None]}
        if WINDOWED in self._kinds:
            near = slot > position[:, None] - self._config.sliding_window
            masks[WINDOWED] = (seen & near)[:, None, None]
        by_kind = {kind: masks[kind] for kind in self._kinds}
        if self._config._attn_implementation != GROUPED:
            by_kind = {kind: self._added(mask) for kind, mask in by_kind.items()}
        return by_kind if len(by_kind) > 1 else next(iter(by_kind.values()))

    def _added(self, mask: torch.Tensor) -> torch.Tensor:
        """The numbers to add to scores: 0 if the mask is true, else the dtype's least number."""
        added = torch.zeros_like(mask, dtype=self._model.dtype)
        return added.masked_fill(~mask, torch.finfo(added.dtype).min)


def _captured(run: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """The kernel launches of `run` as a CUDA graph.

    Args:
        pool: memory of another graph, which this graph shares; None: memory of its own.

    Raises:
        RuntimeError: `run` fails, or does something that cannot be captured, such as reading a
            value from the device.
    """
    graph = torch.cuda.CUDAGraph()
    with capturing(graph, pool=pool):
        run()
    return graph


def _attention_kinds(config: Any) -> tuple[str, ...]:
    """The kinds of attention layers that a model has, sorted.

    Raises:
        UsageError: a kind needs another state than keys and values in slots.
    """
    layers = getattr(config, "layer_types", None)
    if layers is None:
        layers = [WINDOWED if getattr(config, "sliding_window", None) else FULL]
    kinds = tuple(sorted(set(layers)))
    if not {*kinds} <= {FULL, WINDOWED}:
        raise UsageError(
            f"{config.model_type} has layers ({', '.join(kinds)}) that cannot be decoded here",
            remedy="serve it, with vLLM say, and name it as openai:URL#model",
        )
    return kinds
