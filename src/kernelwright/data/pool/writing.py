"""Answers of a policy and of the teacher to programs: written, read, merged."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch

from kernelwright.core.seed import derive
from kernelwright.data.pool.answers import PoolAnswer, PoolProgram
from kernelwright.data.pool.programs import PoolTask
from kernelwright.data.pool.reading import Readers, result_of
from kernelwright.data.pool.recipe import PoolRecipe
from kernelwright.policy.decode import Decoder, WrittenTokens
from kernelwright.policy.embedded import folder_of, load_model
from kernelwright.policy.local import prompt_tokens, stop_tokens
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request, conversation
from kernelwright.policy.scores import answer_logps
from kernelwright.policy.texts import Text
from kernelwright.programs.traffic import eager_seconds
from kernelwright.timing.clock import gpu_lock

POLICY, TEACHER = "policy", "teacher"
ROWS = {"cuda": 8192, "cpu": 256}
"""Answers that are written at once: what decoding in batches needs to be fast, and what is lost at
most when a run is killed."""


class PoolWriter:
    """Has a model write the answers of a pool, and the teacher write further ones beside it."""

    def __init__(self, recipe: PoolRecipe, readers: Readers) -> None:
        """
        Raises:
            UsageError: the model cannot be loaded, or not be decoded here.
        """
        self._recipe, self._readers = recipe, readers
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        folder, on_gpu = folder_of(recipe.writer.path), self._device.type == "cuda"
        self._model, self._tokenizer = load_model(folder, str(self._device), torch.float32)
        decoded = self._model
        if on_gpu:  # bfloat16 decodes faster; scores are computed as the trainer computes them
            decoded, _ = load_model(folder, str(self._device), torch.bfloat16)
        turn = partial(gpu_lock, 0, shared=True) if on_gpu else nullcontext
        stops = stop_tokens(self._model, self._tokenizer)
        self._decoder = Decoder(decoded, stops=stops, turn=turn)

    @property
    def programs_at_once(self) -> int:
        return max(1, ROWS[self._device.type] // (self._recipe.writer.samples + 1))

    def write(self, tasks: Sequence[PoolTask]) -> list[PoolProgram]:
        """Write all answers to some programs.

        Returns:
            Each program with its distinct answers, in the order of `tasks`: the policy's, greedy
            first, with log-probabilities; then the teacher's.

        Raises:
            InfraError: a process that reads answers died.
        """
        # Handed out first: other processes write them while the model decodes.
        lessons = [self._lesson(task) for task in tasks]
        prompts = [self._prompt(task) for task in tasks]
        samples, temperature = self._recipe.writer.samples, self._recipe.writer.temperature
        greedy = self._decoded(prompts, samples=1, tasks=tasks, temperature=0.0)
        drawn = self._decoded(prompts, samples=samples, tasks=tasks, temperature=temperature)
        programs = [
            self._program(task, [*first, *others])
            for task, first, others in zip(tasks, greedy, drawn, strict=True)
        ]
        self._score(programs, prompts)
        for program, lesson in zip(programs, lessons, strict=True):
            texts = result_of(lesson)
            program.answers += [
                PoolAnswer(number=number, writer=TEACHER, text=text)
                for number, text in enumerate(texts, len(program.answers))
            ]
        self._estimate(programs)
        return programs

    def _lesson(self, task: PoolTask) -> Future[list[str]]:
        precision = self._recipe.judging.precision
        return self._readers.taught(task.text, self._recipe.writer.teacher, precision)

    def _prompt(self, task: PoolTask) -> list[int]:
        judging = self._recipe.judging
        request = Request(program=task.program, precision=judging.precision, mode=judging.mode)
        return prompt_tokens(self._tokenizer, conversation(request))

    def _decoded(
        self,
        prompts: Sequence[list[int]],
        *,
        samples: int,
        tasks: Sequence[PoolTask],
        temperature: float,
    ) -> list[list[tuple[int, WrittenTokens]]]:
        """For each prompt its `samples` answers, each with the seed that it was drawn with."""
        seeds = [
            derive(self._recipe.seed, task.fingerprint, number)
            for task in tasks
            for number in range(samples)
        ]
        sampling = Sampling(
            temperature=temperature, max_tokens=self._recipe.writer.max_tokens, seed=0
        )
        rows = [prompt for prompt in prompts for _ in range(samples)]
        written = self._decoder.decode(rows, seeds=seeds, sampling=sampling)
        pairs = list(zip(seeds, written, strict=True))
        return [pairs[first : first + samples] for first in range(0, len(pairs), samples)]

    def _program(self, task: PoolTask, written: Sequence[tuple[int, WrittenTokens]]) -> PoolProgram:
        """The program with the distinct texts among `written`; equal ones are counted as copies."""
        answers: dict[str, PoolAnswer] = {}
        texts = self._tokenizer.batch_decode(
            [row.tokens for _, row in written], skip_special_tokens=True
        )
        # Equal texts get equal verdicts, so one of them is kept. The greedy answer, written first,
        # stays number 0.
        for text, (seed, row) in zip(texts, written, strict=True):
            if text in answers:
                answers[text].copies += 1
                continue
            end = [] if row.end is None else [row.end]
            answers[text] = PoolAnswer(
                number=len(answers),
                writer=POLICY,
                text=text,
                is_cut_off=row.is_cut_off,
                seed=seed,
                tokens=np.array([*row.tokens, *end], np.int32),
            )
        return PoolProgram(
            name=task.name,
            level=task.level,
            text=task.text,
            fingerprint=task.fingerprint,
            eager_s=eager_seconds(task.program),
            answers=list(answers.values()),
        )

    def _score(self, programs: Sequence[PoolProgram], prompts: Sequence[list[int]]) -> None:
        """Set `logps` of every answer that the policy wrote, at the recipe's temperature."""
        rows = [
            (answer, Text(prompt, answer.tokens.tolist()))
            for program, prompt in zip(programs, prompts, strict=True)
            for answer in program.answers
            if len(answer.tokens)
        ]
        temperature = self._recipe.writer.temperature
        logps = answer_logps(self._model, [text for _, text in rows], temperature=temperature)
        for (answer, _), values in zip(rows, logps, strict=True):
            answer.logps = values.astype(np.float16)

    def _estimate(self, programs: Sequence[PoolProgram]) -> None:
        """Set `malformed` and `planned_s` of every answer, in other processes."""
        futures = [
            self._readers.estimates(program.text, [a.text for a in program.answers], POLICY)
            for program in programs
        ]
        for program, future in zip(programs, futures, strict=True):
            estimated = result_of(future)
            for answer, estimate in zip(program.answers, estimated, strict=True):
                answer.malformed, answer.planned_s = estimate
