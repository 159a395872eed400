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
    "eval",
    "Run benchmark suites; the results are records.",
    "kernelbench.md",
    ("Run KernelBench", "kernelbench --root KernelBench -o run"),
    ("Run synthetic-v1", "synthetic --policy embedded -o run"),
)
verbs.add(
    app,
    "all",
    queue.command,
    "eval-all.md",
    ("Print the state of each run", "--out h100 --status"),
    ("Work on the runs for nine minutes", "--out h100 --for 540 --kernelbench KernelBench"),
)
verbs.add(
    app,
    "kernelbench",
    kernelbench.command,
    "kernelbench.md",
    ("Run one level", "--root KernelBench --levels 1 -o run"),
    ("Judge a folder of kernels", "--root KernelBench --policy kernels"),
)
verbs.add(
    app,
    "synthetic",
    synthetic.command,
    "eval-synthetic.md",
    ("Measure the embedded model", "--policy embedded -o run"),
    ("Draw several answers", "--policy embedded -n 8 --temperature 1.0 -o spread"),
)
verbs.add(
    app,
    "tritonbench",
    tritonbench.command,
    "tritonbench.md",
    (
        "Score a folder of predicted files",
        "--root TritonBench --channel T --predictions files -o run",
    ),
    ("Measure the teacher", "--root TritonBench --channel T --policy teacher -o run"),
)
verbs.add(
    app,
    "compare",
    compare.command,
    "eval-synthetic.md",
    ("Compare a model before and after training", "before after"),
)
verbs.add(
    app,
    "modules",
    modules.command,
    "architecture.md",
    ("Optimize the modules of two factories", "models:mlp models:block"),
)
verbs.add(
    app,
    "models",
    models.command,
    "eval-models.md",
    ("Measure two models", "timm/resnet50 transformers/gpt2 -o run"),
    ("Measure the blocks of a model", "transformers/llama --by blocks"),
)
verbs.add(app, "throughput", throughput.command, "verifier.md", ("Measure the judge", "-o run"))
verbs.add(
    app,
    "corpus",
    corpus.command,
    "verifier.md",
    ("Judge cheats and honest kernels", "-o corpus.jsonl"),
)
