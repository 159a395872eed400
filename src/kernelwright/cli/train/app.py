"""`kernelwright train`: make models that write kernels."""

from kernelwright.cli import verbs
from kernelwright.cli.train import rl, sft

app = verbs.group(
    "Train models that write kernels.",
    "sft.md",
    ("Train on pairs", "kernelwright train sft recipes/sft/smoke.toml -o run"),
    ("Train on verdicts", "kernelwright train rl recipes/rl/smoke.toml -o run-rl"),
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Train models that write kernels."""


verbs.add(
    app,
    "sft",
    sft.command,
    "sft.md",
    ("Train on pairs", "kernelwright train sft recipes/sft/smoke.toml -o run"),
    ("Change a setting", "kernelwright train sft recipe.toml -o run --set optimizer.clip=0.5"),
    ("Go on after an interruption", "kernelwright train sft recipe.toml -o run --resume"),
)
verbs.add(
    app,
    "rl",
    rl.command,
    "rl.md",
    ("Train on verdicts", "kernelwright train rl recipes/rl/smoke.toml -o run-rl"),
    ("Go on after an interruption", "kernelwright train rl recipe.toml -o run-rl --resume"),
)
