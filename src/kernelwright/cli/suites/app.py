"""`kernelwright eval`: benchmark suites through the whole product, as records."""

from kernelwright.cli import verbs
from kernelwright.cli.suites import (
    compare,
    corpus,
    kernelbench,
    models,
    modules,
    queue,
    synthetic,
    throughput,
    tritonbench,
)

app = verbs.group(
    "Run benchmark suites; the results are records.",
    "kernelbench.md",
    ("Run KernelBench", "kernelwright eval kernelbench --root KernelBench -o run"),
    ("Run synthetic-v1", "kernelwright eval synthetic --policy embedded -o run"),
    no_args_is_help=True,
)
verbs.add(
    app,
    "all",
    queue.command,
    "eval-all.md",
    ("Print the state of each run", "kernelwright eval all --out h100 --status"),
    (
        "Work on the runs for nine minutes",
        "kernelwright eval all --out h100 --for 540 --kernelbench KernelBench",
    ),
)
verbs.add(
    app,
    "kernelbench",
    kernelbench.command,
    "kernelbench.md",
    ("Run one level", "kernelwright eval kernelbench --root KernelBench --levels 1 -o run"),
    (
        "Judge a folder of kernels",
        "kernelwright eval kernelbench --root KernelBench --policy kernels",
    ),
)
verbs.add(
    app,
    "synthetic",
    synthetic.command,
    "eval-synthetic.md",
    ("Measure the embedded model", "kernelwright eval synthetic --policy embedded -o run"),
    (
        "Draw several answers",
        "kernelwright eval synthetic --policy embedded -n 8 --temperature 1.0 -o spread",
    ),
)
verbs.add(
    app,
    "tritonbench",
    tritonbench.command,
    "tritonbench.md",
    (
        "Score a folder of predicted files",
        "kernelwright eval tritonbench --root TritonBench --channel T --predictions files -o run",
    ),
    (
        "Measure the teacher",
        "kernelwright eval tritonbench --root TritonBench --channel T --policy teacher -o run",
    ),
)
verbs.add(
    app,
    "compare",
    compare.command,
    "eval-synthetic.md",
    ("Compare a model before and after training", "kernelwright eval compare before after"),
)
verbs.add(
    app,
    "modules",
    modules.command,
    "architecture.md",
    ("Optimize the modules of two factories", "kernelwright eval modules models:mlp models:block"),
)
verbs.add(
    app,
    "models",
    models.command,
    "eval-models.md",
    ("Measure two models", "kernelwright eval models timm/resnet50 transformers/gpt2 -o run"),
    ("Measure the blocks of a model", "kernelwright eval models transformers/llama --by blocks"),
)
verbs.add(
    app,
    "throughput",
    throughput.command,
    "verifier.md",
    ("Measure the judge", "kernelwright eval throughput -o run"),
)
verbs.add(
    app,
    "corpus",
    corpus.command,
    "verifier.md",
    ("Judge cheats and honest kernels", "kernelwright eval corpus -o corpus.jsonl"),
)
