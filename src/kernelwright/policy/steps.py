"""One token more for each of many rows, drawn on the device; a CUDA graph where that can be."""

import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch
from transformers import PreTrainedModel

from kernelwright.core.errors import UsageError
from kernelwright.policy.draw import draw
from kernelwright.policy.policy import Sampling
from kernelwright.policy.rows import Rows
from kernelwright.policy.slots import GROUPED, SlotCache
from kernelwright.timing.graphs import capturing

WINDOWED, FULL = "sliding_attention", "full_attention"
CAPTURING = "captur"
"""In every message of CUDA's and PyTorch's about what a graph cannot hold."""


class DecodingSteps:
    """Steps of one model. What is captured reads rows and cache where they were: `forget` before
    they move."""

    def __init__(self, model: PreTrainedModel, *, stops: Collection[int]) -> None:
        """
        Args:
            stops: tokens that end a row.

        Raises:
            UsageError: the model attends in a way that fixed slots cannot serve.
        """
        self._model, self._config = model, model.config.get_text_config()
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
        """How the next steps choose tokens."""
        self._temperature.fill_(sampling.temperature or 1.0)
        self._top_p.fill_(sampling.top_p)
        self._is_greedy, self._has_nucleus = sampling.temperature == 0.0, sampling.top_p < 1.0

    def forget(self) -> None:
        """Let go of captured steps, and of the memory they compute in."""
        self.captured.clear()

    def advance(self, rows: Rows, cache: SlotCache, bucket: int) -> None:
        """One step, captured where it can be. The first of a kind is run as it is, which warms up
        what capturing must not.

        Args:
            rows: the first that the cache holds.
            bucket: slots that attention reads.
        """
        key = (len(rows.token), bucket, self._is_greedy, self._has_nucleus)
        if key in self.captured:
            self.captured[key].replay()
            return
        self._step(rows, cache, bucket)
        if not self.can_capture:
            return
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
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
        if self._is_greedy:
            chosen = logits.argmax(dim=-1)
        else:
            number = on.uniform.gather(1, on.count[:, None])[:, 0]
            top_p = self._top_p if self._has_nucleus else None
            chosen = draw(logits, number, self._temperature, top_p)
        on.written.scatter_(1, on.count[:, None], chosen[:, None])
        runs = ~on.done
        on.token.copy_(torch.where(runs, chosen, on.token))
        on.count += runs
        on.position += runs
        on.done |= (chosen[:, None] == self._stops).any(dim=-1) | (on.count >= on.limit)

    def _mask(self, position: torch.Tensor, bucket: int) -> Any:
        """(rows, 1, 1, bucket): which slots each row attends to, for each kind of layer; for other
        attention than our own as what is added to its scores."""
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
        """To scores: 0 where the mask is true, the least number elsewhere."""
        added = torch.zeros_like(mask, dtype=self._model.dtype)
        return added.masked_fill(~mask, torch.finfo(added.dtype).min)


def _captured(run: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """The launches of `run`, as a graph.

    Args:
        pool: memory of another graph, which this one computes in too; None: of its own.

    Raises:
        RuntimeError: what it does cannot be captured (it asks the device something, say), or fails.
    """
    graph = torch.cuda.CUDAGraph()
    with capturing(graph, pool=pool):
        run()
    return graph


def _attention_kinds(config: Any) -> tuple[str, ...]:
    """Kinds of layers the model has."""
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
