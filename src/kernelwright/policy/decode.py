"""Decodes many rows at once with any causal language model in Hugging Face's layout.

A row is a prompt with a seed of its own. The tokens of a row do not depend on other rows, except by
rounding. Rows lie in fixed memory (`policy.slots`). A step adds a token to each row
(`policy.steps`). When rows end, waiting rows take their place, or the step gets smaller. The host
checks only every few steps which rows have ended, because each check waits for the GPU.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from kernelwright.policy.draw import uniforms
from kernelwright.policy.policy import Sampling
from kernelwright.policy.rows import Rows, Waiting
from kernelwright.policy.slots import SlotCache, cache_keyword, grouped
from kernelwright.policy.steps import DecodingSteps
from kernelwright.policy.threads import Threads
from kernelwright.timing.stages import worked_s

MAX_ROWS = {"cuda": 1024, "cpu": 32}
"""Device -> the most rows at once, if memory does not set a lower limit."""
MEMORY_SHARE = 0.6
"""The share of a GPU's free memory for keys and values."""
ROW_SIZES = (1, 4, 16, 64, 256, 1024)
"""Numbers of rows for which a step is captured as a CUDA graph."""
PACE = {"cuda": 16, "cpu": 1}
"""Device -> number of steps between two checks which rows have ended."""
BUCKET = {"cuda": 256, "cpu": 64}
"""Device -> number of slots. Attention reads a multiple of this number."""
FEW_ROWS, FEW_SLOTS = 64, 512
"""If a GPU decodes at most `FEW_ROWS` rows, attention reads a power of two of slots, at least
`FEW_SLOTS`. With few rows, the time of a step hardly depends on the slots, and a capture takes as
long as 200 steps. So there should be few sizes."""
GROWTH = 2
"""The factor by which the memory for keys and values grows, up to the longest possible row."""
REFILL_SHARE = 8
"""Waiting rows begin when one row in this number is free. To begin a few rows takes as long as to
begin many."""
PROMPT_TOKENS = 1 << 16
"""The most tokens of prompts that one forward pass reads."""


@dataclass(frozen=True, slots=True)
class WrittenTokens:
    """The tokens that a model wrote after a prompt."""

    tokens: list[int]
    """The tokens of the row, without the end token."""
    end: int | None
    """The end token; None if the row reached its limit without an end token."""
    is_out_of_time: bool = False
    """Whether the row was cut because the time for writing was over."""

    @property
    def is_cut_off(self) -> bool:
        return self.end is None


class Decoder:
    """Decodes with one model. Memory and captured steps stay between calls, until `release`."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stops: Collection[int],
        max_rows: int = 0,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """
        Args:
            stops: tokens that end a row.
            max_rows: the most rows at once; 0: as many as memory has room for.
            turn: makes a context for a few steps. Other processes can use the device between two
                such contexts.

        Raises:
            UsageError: the model attends in a way that fixed slots cannot serve.
        """
        self._model, self._config = model, model.config.get_text_config()
        self._turn = turn
        self._num_threads = Threads(torch.get_num_threads())
        self._steps = DecodingSteps(model, stops=stops)
        self._stops = frozenset(stops)
        self._device = model.device
        self._on_gpu = self._device.type == "cuda"
        kind = "cuda" if self._on_gpu else "cpu"
        self._pace, self._bucket_step = PACE[kind], BUCKET[kind]
        self._most = max_rows or MAX_ROWS[kind]
        self._cache = SlotCache(self._config, rows=0, length=0)
        self._rows = Rows.empty(0, 0, self._device)

    @property
    def context(self) -> int:
        """The most tokens of a prompt and its answer together."""
        return int(self._config.max_position_embeddings)

    def decode(
        self, prompts: Sequence[Sequence[int]], *, seeds: Sequence[int], sampling: Sampling
    ) -> list[WrittenTokens]:
        """The tokens that follow each prompt, in the order of the prompts. A prompt that fills the
        model's context gets none.

        Args:
            seeds: one for each prompt: equal prompts with equal seeds get equal tokens.
        """
        written = dict(self.stream(prompts, seeds=seeds, sampling=sampling))
        return [written[number] for number in range(len(prompts))]

    @torch.inference_mode()
    def stream(
        self, prompts: Sequence[Sequence[int]], *, seeds: Sequence[int], sampling: Sampling
    ) -> Iterator[tuple[int, WrittenTokens]]:
        """As `decode`, but yields (number of the prompt, tokens) as soon as each row ends."""
        limits = [min(sampling.max_tokens, self.context - len(prompt)) for prompt in prompts]
        order = sorted(
            (i for i, limit in enumerate(limits) if limit > 0), key=lambda i: -len(prompts[i])
        )
        left = set(range(len(prompts)))
        if not order:
            yield from ((number, WrittenTokens([], end=None)) for number in left)
            return
        self._steps.aim(sampling)
        waiting = [Waiting(i, list(prompts[i]), seeds[i], limits[i]) for i in order]
        self._make_room(len(waiting), max(len(w.prompt) + w.limit for w in waiting))
        with grouped(self._model):
            for index, written in self._all(waiting, sampling.for_s):
                left.remove(index)
                yield index, written
        # Left are rows that had no time to begin, and prompts that fill the model's context.
        for number in left:
            yield number, WrittenTokens([], end=None, is_out_of_time=limits[number] > 0)

    def release(self) -> None:
        """Free the memory of keys, values and captured steps. A later `decode` allocates memory
        again."""
        self._steps.forget()
        self._cache = SlotCache(self._config, rows=0, length=0)
        self._rows = Rows.empty(0, 0, self._device)
        if self._on_gpu:
            torch.cuda.empty_cache()  # other processes, the judge's guests say, have room then

    def _all(
        self, waiting: list[Waiting], for_s: float | None
    ) -> Iterator[tuple[int, WrittenTokens]]:
        """Yield every row with its index when the row ends. Rows at the end of `waiting` begin
        first.

        After `for_s` seconds, running rows end and waiting rows do not begin. Time in which other
        processes use the device does not count.
        """
        end_s = math.inf if for_s is None else worked_s() + for_s
        running: dict[int, Waiting] = {}
        is_over = False
        while (waiting or running) and not is_over:
            with self._turn():
                self._advance(waiting, running)
                is_over = worked_s() > end_s
                if is_over:
                    self._rows.done.fill_(True)
                ended = list(self._ended(running))
            # Outside of the turn: the caller may work long between two rows.
            yield from ended

    def _advance(self, waiting: list[Waiting], running: dict[int, Waiting]) -> None:
        """Begin waiting rows if enough slots are free, then take `pace` steps with all rows."""
        free = [slot for slot in range(self._cache.rows) if slot not in running]
        if waiting and (not running or len(free) * REFILL_SHARE >= self._cache.rows):
            begun = {slot: waiting.pop() for slot in free[: len(waiting)]}
            self._begin(begun)
            running |= begun
        rows = self._rows.first(self._densely(running))
        # Slots for all steps up to the next look at the rows: none can be added in between.
        longest = max(row.length for row in running.values()) + self._pace
        bucket = self._lengthen(longest)
        with self._threads():
            for _ in range(self._pace):
                self._steps.advance(rows, self._cache, bucket)
        for row in running.values():
            row.length += self._pace

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """A context in which a CPU computes with the number of threads that was fastest lately."""
        if self._on_gpu:
            yield
            return
        most, begin_s = torch.get_num_threads(), time.perf_counter()
        torch.set_num_threads(min(self._num_threads.next(), most))
        try:
            yield
        finally:
            torch.set_num_threads(most)
            self._num_threads.took(time.perf_counter() - begin_s)

    def _make_room(self, rows: int, length: int) -> None:
        """Make room for so many rows of `length` tokens, or for as many rows as memory allows.

        Keys and values get their memory later (`_lengthen`), since most rows end early.
        """
        most = min(self._most, self._affordable(length))
        # A few sizes only, since each size of a step is captured by itself.
        if self._on_gpu:
            rows = next((n for n in ROW_SIZES if n >= rows), rows)
        rows = min(rows, most)
        capacity = self._rows.written.shape[1] - 1
        if rows <= self._cache.rows and length <= capacity:
            return
        length = max(length, capacity)
        rows = min(max(rows, self._cache.rows), self._affordable(length))
        self._steps.forget()
        self._cache = SlotCache(self._config, rows=rows, length=0)
        self._rows = Rows.empty(rows, length, self._device)

    def _lengthen(self, slots: int) -> int:
        """Make sure that each row has `slots` slots for keys and values.

        Returns:
            The number of slots rounded up, which the next steps read.
        """
        most = _round_up(self._rows.written.shape[1], self._bucket_step)
        is_few = self._on_gpu and self._cache.rows <= FEW_ROWS
        slots = slots_to_read(slots, most=most, step=self._bucket_step, is_few=is_few)
        if slots > self._cache.length:
            self._steps.forget()  # they read where keys and values were
            self._cache.lengthen(max(slots, min(GROWTH * self._cache.length, most)))
        return slots

    def _affordable(self, length: int) -> int:
        """The number of rows of `length` slots for which memory has room, at least 1."""
        if not self._on_gpu:
            return self._most
        config = self._config
        width = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = 2 * config.num_hidden_layers * heads * width * self._model.dtype.itemsize * length
        num_cached = self._cache.rows * self._cache.length * size // length
        # What the present cache holds is given back when a larger one is made.
        free, _ = torch.cuda.mem_get_info(self._device)
        return max(1, int(MEMORY_SHARE * (free + num_cached) / size))

    def _begin(self, begun: dict[int, Waiting]) -> None:
        """Put rows into free slots, and read their prompts except the last token. The first step
        reads the last token, and draws the first new token.

        Args:
            begun: slot -> row.
        """
        self._lengthen(max(len(row.prompt) for row in begun.values()))
        slots = list(begun)
        put, index = self._rows, self._tensor(slots)
        most = max(row.limit for row in begun.values())
        numbers = torch.stack([uniforms(row.seed, most) for row in begun.values()])
        put.uniform[index, :most] = numbers.to(self._device)
        put.token[index] = self._tensor([row.prompt[-1] for row in begun.values()])
        put.position[index] = self._tensor([len(row.prompt) - 1 for row in begun.values()])
        put.limit[index] = self._tensor([row.limit for row in begun.values()])
        put.count[index] = 0
        put.done[index] = False
        # Prompts of like length go together: a pass is as wide as its longest prompt.
        slots.sort(key=lambda slot: len(begun[slot].prompt))
        while slots:
            width = len(begun[slots[-1]].prompt) - 1
            few = slots[-max(1, PROMPT_TOKENS // max(width, 1)) :]
            del slots[-len(few) :]
            if width:
                self._read([begun[slot].prompt[:-1] for slot in few], few, width)

    def _read(self, prompts: list[list[int]], slots: list[int], width: int) -> None:
        """Fill the cache with keys and values of prompts.

        Shorter prompts are padded at the end. Steps write over the padding's slots before any token
        attends to them.

        Args:
            prompts: at most `width` tokens each.
            slots: the row of the cache for each prompt.
        """
        padded = self._tensor([prompt + [0] * (width - len(prompt)) for prompt in prompts])
        self._cache.aim_prompts(self._tensor(slots))
        self._model(
            input_ids=padded,
            position_ids=torch.arange(width, device=self._device)[None],
            use_cache=True,
            logits_to_keep=1,
            **{cache_keyword(self._model): self._cache},
        )

    def _densely(self, running: dict[int, Waiting]) -> int:
        """Move running rows to the front, if that makes the step smaller.

        Returns:
            How many of the first rows the next steps take: a size of `ROW_SIZES` on a GPU, since
            each size is captured once.
        """
        rows = len(running)
        if self._on_gpu:
            rows = next((n for n in ROW_SIZES if n >= rows), self._cache.rows)
        rows = min(rows, self._cache.rows)
        behind = [slot for slot in running if slot >= rows]
        if behind:
            free = [slot for slot in range(rows) if slot not in running][: len(behind)]
            begin, end = self._tensor(behind), self._tensor(free)
            self._cache.move(begin, end)
            self._rows.move(begin, end)
            self._rows.done[begin] = True  # the places that the rows left no longer run
            for old, new in zip(behind, free, strict=True):
                running[new] = running.pop(old)
        return rows

    def _ended(self, running: dict[int, Waiting]) -> Iterator[tuple[int, WrittenTokens]]:
        """Remove the rows that are done from `running`, and yield these rows with their index."""
        done = self._rows.done.tolist()
        slots = [slot for slot in running if done[slot]]
        if not slots:
            return
        index = self._tensor(slots)
        counts = self._rows.count[index].tolist()
        written = self._rows.written[index, : max(counts)].tolist()
        for slot, count, tokens in zip(slots, counts, written, strict=True):
            *before, last = tokens[:count]
            row = running.pop(slot)
            has_end = last in self._stops
            if has_end:
                yield row.index, WrittenTokens(before, last)
            else:
                yield (
                    row.index,
                    WrittenTokens([*before, last], None, is_out_of_time=count < row.limit),
                )

    def _tensor(self, values: list[Any]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)


def slots_to_read(slots: int, *, most: int, step: int, is_few: bool) -> int:
    """The number of slots to read for rows that need `slots`.

    Args:
        most: the most slots that a row may need. The result is not larger.
        step: the result is a multiple of this number, unless it is `most` or a power of two.
        is_few: whether to round up to a power of two, so that few steps are captured.
    """
    slots = _round_up(slots, step)
    if not is_few:
        return slots
    return max(slots, min(max(1 << (slots - 1).bit_length(), FEW_SLOTS), most))


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
