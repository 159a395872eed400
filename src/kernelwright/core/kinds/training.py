"""Lines of `train sft` and `train rl`: parts, steps, validations, checkpoints, summaries."""

from typing import Any, Literal, TypedDict

from kernelwright.core.kinds.fields import EnvironmentFields, Settings, VerdictFields

PartLine = TypedDict(
    "PartLine",
    {
        "record": Literal["part"],
        "command": str,
        "from_step": int,
        "from": str | None,
        "optimizer_began": int,
        "steps_trained_again": int,
        "steps": int | None,
        "processes": int,
        "recipe": Settings,
        "data": dict[str, Any],
        "environment": EnvironmentFields,
    },
)
"""Where a run begins, and wherever the run is resumed. `from` names the checkpoint. `steps` is null
where the clock alone ends the run."""


class StepLine(TypedDict, total=False):
    """Supervised steps since the line before."""

    record: Literal["step"]
    step: int
    loss: float
    learning_rate: float
    grad_norm: float
    epoch: float
    tokens: int
    """Tokens since the beginning of the run."""
    tokens_per_s: float
    seconds: float
    """Seconds of training since the beginning of the run."""


class ValidationLine(TypedDict, total=False):
    """The loss on held-out pairs."""

    record: Literal["validation"]
    step: int
    loss: float
    by_level: dict[str, float]
    tokens: float
    seconds: float
    model: str
    epoch: float


class CheckpointLine(TypedDict):
    """A checkpoint was written."""

    record: Literal["checkpoint"]
    step: int
    bytes: int
    seconds: float


class LevelShares(TypedDict):
    """The answers of a step to programs of one level."""

    rollouts: int
    correct: float | None
    faster: float | None


class RewardFields(TypedDict):
    """The rewards of a step; null where no answer has one."""

    mean: float | None
    std: float | None


class RlStepLine(TypedDict, total=False):
    """A step of reinforcement learning."""

    record: Literal["rl_step"]
    step: int
    model: str
    stage: int
    """Number of the curriculum's stage."""
    level_mix: dict[str, float]
    rollouts: int
    answers: dict[str, int]
    """"candidate", or the reason why an answer holds none -> answers."""
    codes: dict[str, int]
    """"accepted", or the reason code of a rejection -> answers."""
    reached: dict[str, int]
    """Milestone -> answers that came so far and no further."""
    cheats: int
    infra: int
    """Answers that could not be judged; none of them is learnt from."""
    judged: int
    judging_s: dict[str, dict[str, float]]
    reward: RewardFields
    correct: float | None
    """Share of the judged answers; so is `faster`."""
    faster: float | None
    speedup: float | None
    """Geometric mean of measured speed-ups of correct answers."""
    modelled: float | None
    """Geometric mean of estimated speed-ups of correct answers."""
    own_kernel_share: float | None
    """Mean share of GPU time in kernels of the candidates themselves."""
    groups: dict[str, int]
    """"mixed", "all_right", "all_wrong" -> groups of answers. Only mixed groups teach
    correctness."""
    by_level: dict[str, LevelShares]
    tokens: float
    """Mean length of an answer."""
    entropy: float | None
    """Mean entropy of the next token, over the tokens of the answers that had a gradient. Null if
    no answer had one."""
    loss: float
    kl: float
    """Mean of log-probability under the writer minus that under the policy. The mean is over the
    tokens of the answers that had a gradient; 0 if none had one."""
    grad_norm: float
    learning_rate: float
    seconds: dict[str, float]
    """"step" and its parts ("decode", "judge", "learn" ...) -> seconds."""


RlLevelFields = TypedDict(
    "RlLevelFields",
    {
        "programs": int,
        "pass@1": float,
        "faster": float | None,
        "speedup": float | None,
        "modelled": float | None,
        "not_judged": int,
    },
    total=False,
)
"""Held-out programs of a level. `not_judged` counts failures of ours."""


class RlValidationLine(TypedDict):
    """Greedy answers to held-out programs."""

    record: Literal["rl_validation"]
    step: int
    by_level: dict[str, RlLevelFields]


PromotionLine = TypedDict(
    "PromotionLine",
    {"record": Literal["promotion"], "step": int, "from": int, "to": int, "pass@1": float | None},
)
"""The curriculum goes on to its next stage."""


class ExampleLine(TypedDict, total=False):
    """A held-out program and its greedy answer."""

    record: Literal["example"]
    step: int
    program: str
    level: str
    text: str
    verdict: VerdictFields | None


class AuditLine(TypedDict, total=False):
    """A rewarded answer that was judged again, `fresh`."""

    record: Literal["audit"]
    step: int
    program: str
    source: str
    reward: float
    agrees: bool
    verdict: VerdictFields


class TrainingSummaryLine(TypedDict, total=False):
    """The end of a part that was not killed."""

    record: Literal["summary"]
    step: int
    tokens: int
    seconds: float
    gpu_hours: float | None
    best_loss: float | None
    """Null where no validation was run; so is `best_score`."""
    best_score: float | None
    best_step: int | None
    stopped_by: int | None
    """Number of the signal that ended the part; null without a signal."""
    gpu_peak_bytes: int | None
