"""`kernelwright data`: programs and pairs to train on."""

from kernelwright.cli import verbs
from kernelwright.cli.data import build, collect, fingerprints, pool

app = verbs.group(
    "data",
    "Make programs and pairs to train on.",
    "data.md",
    ("Collect the programs inside a package", "collect torch.nn -o nn.jsonl"),
    ("Build pairs from a recipe", "build recipes/data/smoke.toml -o pairs"),
)


verbs.add(
    app,
    "build",
    build.command,
    "data.md",
    ("Build pairs from a recipe", "recipes/data/smoke.toml -o pairs"),
)
verbs.add(
    app,
    "collect",
    collect.command,
    "collect.md",
    ("Collect from an installed package", "torch.nn -o nn.jsonl"),
    ("Collect from a folder", "models -o models.jsonl --levels 1,2,5"),
)
verbs.add(
    app,
    "fingerprints",
    fingerprints.command,
    "csp-dag.md",
    ("Note what tasks compute", "tasks -o tasks.json"),
)
verbs.add(
    app,
    "pool",
    pool.pool,
    "pool.md",
    ("Judge answers of the embedded model", "recipes/pool/smoke.toml -o p"),
)
verbs.add(
    app, "fastest", pool.fastest, "pool.md", ("Make pairs of the fastest answers", "pool -o pairs")
)
