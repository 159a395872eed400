"""A recipe of reinforcement learning: model, programs, rollouts, reward, objective, curriculum.

docs/rl.md explains every setting; recipes/rl has examples.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from kernelwright.core import strict
from kernelwright.core.errors import UsageError
from kernelwright.data.pool import recipe as pool
from kernelwright.policy.names import URL
from kernelwright.policy.policy import Sampling
from kernelwright.rewards.rewards import (
    MODELLED,
    REWARDS,
    SIGNED_REWARDS,
    SPEED_REWARDS,
    RewardSettings,
)
from kernelwright.train import recipe as supervised
from kernelwright.train.recipe import Decay, Dtype, TrainingBudget, check_positive

LOCAL = "local"
"""The policy of answers that the learning model writes itself, in this process."""
POOL = "pool:"
"""The prefix of a pool's folder. The run learns from the stored answers of the pool, and writes no
answers to training programs."""


class Loss(StrEnum):
    """The losses, which docs/rewards.md defines."""

    GRPO = "grpo"
    DR_GRPO = "dr_grpo"
    LEAVE_ONE_OUT = "leave_one_out"
    HRD = "hrd"
    DRPO = "drpo"


class Mix(StrEnum):
    """The choice of the levels of a step's programs."""

    STAGES = "stages"
    """The levels of the present stage. Stages follow one another."""
    FIXED = "fixed"
    """The levels of the last stage during the whole run: the baseline for curricula."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RlModelSettings:
    """The model that learns."""

    path: str
    """Folder of a causal language model in Hugging Face's layout, or "embedded"."""
    dtype: Dtype = Dtype.FLOAT32
    """The dtype of the weights in training; a GPU computes in bfloat16."""
    gradient_checkpointing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramSettings:
    """The programs that kernels are written for."""

    files: tuple[str, ...] = ()
    """JSONL of `kernelwright synth`, `data collect` or `data build`."""
    draw: Mapping[str, int] = field(default_factory=dict)
    """Level -> number of programs that are drawn for this run, in addition to those of files."""
    avoid: tuple[str, ...] = ()
    """Files of `kernelwright data fingerprints`: tasks that must not be used for training. The
    tasks of the shipped benchmarks are never used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumStage:
    """The levels of a stage, and the latest end of the stage."""

    levels: Mapping[str, float]
    """Level -> weight. The programs of the highest level decide about the promotion."""
    max_steps: int | None = None
    """The most steps of the stage."""
    max_minutes: float | None = None
    """The most minutes of training in the stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumSettings:
    """The stages of a curriculum, and how programs are drawn within them."""

    mix: Mix = Mix.STAGES
    stages: tuple[CurriculumStage, ...] = ()
    """The stages in order. Without stages, all levels have equal shares."""
    promote_at: float = 0.5
    """The stage ends when this share is reached at its highest level. The share is measured in two
    ways: greedy answers to held-out programs, and answers to the last `promote_after` training
    programs."""
    promote_after: int = 128
    """The number of training programs of the highest level over which the share is taken."""
    visits: int = 2
    """A program is dull if all answers of its last visits were right, or all were wrong. This is
    the number of these visits."""
    dull_weight: float = 0.25
    """The weight of a dull program in the draws, because its groups teach nothing. Other programs
    have 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollouts:
    """The answers of a step: `programs` times `group`."""

    programs: int = 128
    group: int = 8
    """Answers to each program."""
    policy: str = LOCAL
    """"local": the learning model. "openai:URL#model": a server, which gets the weights after each
    step. "pool:FOLDER": the judged answers of `kernelwright data pool`."""
    served: str = ""
    """The folder from which the server reads its model. The trainer writes the weights there."""
    turns: int = 1
    """2: the model reads the judge's finding on a wrong answer, and answers again."""
    retries: int = 2
    """The number of second answers to each wrong first answer. They form a group."""
    discount: float = 0.5
    """A wrong first answer earns this share of the mean reward of its second answers (Kevin,
    section 3.2). Not for `drpo`, which reads no rewards of wrong answers."""
    ahead: int = 0
    """1: while the model learns from a step, the answers of the next step are judged."""
    temperature: float = 1.0
    max_tokens: int = 2048

    @property
    def pool(self) -> str:
        """The folder of the pool; "" if answers are written."""
        return self.policy.removeprefix(POOL) if self.policy.startswith(POOL) else ""

    def sampling(self, seed: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=self.max_tokens, seed=seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class RlJudgingSettings(pool.JudgingSettings):
    """The settings of judging, as for pools, and the machines that judge."""

    cluster: str = ""
    """The address of a Ray cluster, HOST:PORT or "auto". Empty: this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """Reward and loss, with the numbers of their formulas (docs/rewards.md)."""

    loss: Loss = Loss.GRPO
    reward: str = "rule_and_execution"
    updates: int = 1
    """The number of optimiser steps in a step of the run. Each optimiser step learns from its own
    share of the programs."""
    clip_low: float = 0.2
    """Ratios of new to old probability are clipped to 1 - clip_low and 1 + clip_high. Not for
    drpo."""
    clip_high: float = 0.2
    alpha: float = 0.1
    """hrd: factor of the plan's advantage."""
    kl: float = 0.0
    """Coefficient of the KL divergence from the model at the start of the run, for each token.
    AutoTriton and DRTriton's GRPO have this term. 0: there is no reference model."""
    power: float = 1.0
    """power_speed, one_plus_power: the exponent of the speed-up."""
    correct_share: float = 0.3
    """mixed: the weight of correctness, which is beta in TritonRL."""
    max_speedup: float = 2.0
    """hierarchical, mixed: the largest speed-up that counts; a larger speed-up earns no more."""
    temperature: float = 0.1
    """drpo: lambda, the temperature of the weights among right answers."""
    tau: float = 5.0
    """drpo: temperature of the log-mean-exp over wrong answers."""
    beta: float = 100.0
    """drpo: coefficient of the squared hinge."""
    delta: float = 0.001
    """drpo: the KL divergence up to which the hinge is 0."""
    contrasts_right: bool = False
    """drpo: a group with right answers alone teaches which of these answers are fast."""
    by_kernel: bool = False
    """In a wrong answer, the verdict on a step decides the credit of the step's tokens
    (`rl.by_kernel`). This needs a pool with `choice.steps`. Not for drpo, which reads no
    advantages."""

    @property
    def right_teaches(self) -> bool:
        """Whether the answers of a group with right answers alone get different credit, for their
        speed."""
        if self.loss is Loss.DRPO:
            return self.contrasts_right
        return self.reward not in ("rule_and_execution", "partial_credit")

    @property
    def reward_settings(self) -> RewardSettings:
        return RewardSettings(
            power=self.power, correct_share=self.correct_share, max_speedup=self.max_speedup
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RlOptimizerSettings(supervised.OptimizerSettings):
    """Settings of AdamW, with other defaults than in supervised training."""

    learning_rate: float = 1e-5
    decay: Decay = Decay.CONSTANT
    warmup_steps: int = 0
    weight_decay: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RlCheckpointSettings(supervised.CheckpointSettings):
    """How often checkpoints are written, with another default than in supervised training."""

    every_steps: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class RlValidationSettings:
    """Greedy answers to held-out programs."""

    every_steps: int = 20
    files: tuple[str, ...] = ()
    """Files of programs. Empty: a share of the recipe's own programs."""
    share: float = 0.02
    programs: int = 64
    """The most held-out programs of each level."""
    examples: int = 8
    """Programs whose answers are kept at each validation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audits:
    """How often the fastest correct candidates are judged again, `fresh`, and how many."""

    every_steps: int = 20
    candidates: int = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class RlRecipe(strict.Recipe):
    """All settings of a run of `train rl`.

    The constructor raises UsageError for values that are out of range or contradict each other.
    """

    budget: TrainingBudget
    model: RlModelSettings
    programs: ProgramSettings
    seed: int = 0
    curriculum: CurriculumSettings = CurriculumSettings()
    rollouts: Rollouts = Rollouts()
    judging: RlJudgingSettings = RlJudgingSettings()
    objective: Objective = Objective()
    micro_tokens: int = 65_536
    """Tokens of a forward pass of one process, padding included."""
    optimizer: RlOptimizerSettings = RlOptimizerSettings()
    validation: RlValidationSettings = RlValidationSettings()
    audits: Audits = Audits()
    checkpoints: RlCheckpointSettings = RlCheckpointSettings()

    def __post_init__(self) -> None:
        check_positive(
            {
                "rollouts.programs": self.rollouts.programs,
                "rollouts.temperature": self.rollouts.temperature,
                "rollouts.max_tokens": self.rollouts.max_tokens,
                "objective.updates": self.objective.updates,
                "objective.temperature": self.objective.temperature,
                "objective.tau": self.objective.tau,
                "objective.power": self.objective.power,
                "objective.max_speedup": self.objective.max_speedup,
                "micro_tokens": self.micro_tokens,
                "optimizer.learning_rate": self.optimizer.learning_rate,
                "curriculum.visits": self.curriculum.visits,
                "curriculum.dull_weight": self.curriculum.dull_weight,
                "curriculum.promote_after": self.curriculum.promote_after,
                "validation.every_steps": self.validation.every_steps,
                "validation.programs": self.validation.programs,
                "audits.every_steps": self.audits.every_steps,
                "checkpoints.every_steps": self.checkpoints.every_steps,
                "checkpoints.keep": self.checkpoints.keep,
            }
        )
        self._check_budget()
        self._check_objective()
        self._check_rollouts()

    def _check_budget(self) -> None:
        limits = {name: value for name, value in asdict(self.budget).items() if value is not None}
        known = ("steps", "minutes", "epochs") if self.rollouts.pool else ("steps", "minutes")
        if len(limits) != 1 or not limits.keys() <= set(known) or min(limits.values()) <= 0:
            raise UsageError(
                f"[budget] {limits}", remedy=f"give one of {', '.join(known)}, above 0"
            )

    def _check_objective(self) -> None:
        objective = self.objective
        if objective.reward not in REWARDS:
            raise UsageError(
                f"objective.reward = {objective.reward!r}",
                remedy=f"choose from {', '.join(REWARDS)}",
            )
        if (objective.reward == "hierarchical") != (objective.loss is Loss.HRD):
            raise UsageError(
                f"objective: loss {objective.loss} with reward {objective.reward}",
                remedy='plan and code have rewards of their own in "hierarchical" alone, and only '
                '"hrd" learns from them: give both or neither',
            )
        if objective.loss is Loss.DRPO and objective.reward not in SPEED_REWARDS:
            raise UsageError(
                f"objective.reward = {objective.reward!r}: drpo weighs right answers by speed",
                remedy=f"choose {', '.join(sorted(SPEED_REWARDS))}",
            )
        if objective.loss is not Loss.DRPO and objective.reward in SIGNED_REWARDS:
            raise UsageError(
                f"objective: loss {objective.loss} with reward {objective.reward}: a correct answer"
                " slower than PyTorch would earn less than a wrong one",
                remedy="choose one_plus_log or power_speed, or the loss drpo",
            )
        if objective.reward == MODELLED and self.judging.timing:
            raise UsageError(
                "objective.reward = 'modelled' beside judging.timing: estimates and times mix",
                remedy="set judging.timing = false, or choose log_speed",
            )
        if objective.kl < 0 or not 0 <= objective.correct_share <= 1:
            raise UsageError(
                f"objective.kl = {objective.kl}, objective.correct_share = "
                f"{objective.correct_share}",
                remedy="give a coefficient of 0 or more, and a share from 0 to 1",
            )
        if objective.contrasts_right and objective.loss is not Loss.DRPO:
            raise UsageError(
                f"objective.contrasts_right with loss {objective.loss}",
                remedy="leave it out: other losses compare all answers of a group anyway",
            )
        if objective.by_kernel and (objective.loss is Loss.DRPO or not self.rollouts.pool):
            raise UsageError(
                f"objective.by_kernel with loss {objective.loss} and {self.rollouts.policy!r}",
                remedy="choose another loss than drpo, and a pool with choice.steps",
            )
        if objective.updates > self.rollouts.programs:
            raise UsageError(
                f"objective.updates = {objective.updates}: each wants programs of its own",
                remedy="lower it, or raise rollouts.programs",
            )

    def _check_rollouts(self) -> None:
        rollouts = self.rollouts
        if rollouts.group < 2:
            raise UsageError(
                f"rollouts.group = {rollouts.group}", remedy="answers are compared: give 2 or more"
            )
        for name, value, least, most in (
            ("rollouts.turns", rollouts.turns, 1, 2),
            ("rollouts.ahead", rollouts.ahead, 0, 1),
            ("rollouts.discount", rollouts.discount, 0, 1),
            ("validation.share", self.validation.share, 0, 1),
            ("curriculum.promote_at", self.curriculum.promote_at, 0, 1),
        ):
            if not least <= value <= most:
                raise UsageError(f"{name} = {value}", remedy=f"give {least} to {most}")
        if rollouts.policy != LOCAL and not rollouts.policy.startswith((URL, POOL)):
            raise UsageError(
                f"rollouts.policy = {rollouts.policy!r}",
                remedy=f'give "{LOCAL}", "{URL}URL#model" or "{POOL}FOLDER"',
            )
        if rollouts.pool and (rollouts.turns > 1 or rollouts.ahead):
            raise UsageError(
                f"rollouts: turns = {rollouts.turns}, ahead = {rollouts.ahead} with a pool",
                remedy="leave both out: the answers of a pool are written",
            )
        if rollouts.turns > 1 and rollouts.retries < 2:
            raise UsageError(
                f"rollouts.retries = {rollouts.retries}",
                remedy="second answers are compared with each other: give 2 or more",
            )
        if rollouts.policy.startswith(URL) != bool(rollouts.served):
            raise UsageError(
                f"rollouts.policy = {rollouts.policy!r} with rollouts.served = {rollouts.served!r}",
                remedy="a server, and the folder it reads its model from, belong together",
            )
        if not (self.programs.files or self.programs.draw or rollouts.pool):
            raise UsageError("no programs to learn from", remedy="give programs.files or .draw")
