"""`kernelwright eval`: benchmark suites through the whole product, as records."""

import time
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import progress
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    Mode,
    ModeOption,
    Precision,
    PrecisionOption,
)

app = typer.Typer(no_args_is_help=True, help="Run benchmark suites; results are records.")


@app.command("kernelbench")
def kernelbench(
    folder: Annotated[Path, typer.Argument(help="A level's folder of a KernelBench checkout.")],
    level: Annotated[str, typer.Option(help="Name in the records, e.g. L2.")],
    results: Annotated[Path, typer.Option(help="JSONL file; cases in it are not run again.")],
    work: Annotated[Path, typer.Option(help="Folder for each case's files.")] = Path("out/eval"),
    only: Annotated[str, typer.Option(help="Task numbers, e.g. 1,7,20.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 4,
    for_s: Annotated[float, typer.Option(help="Begin no case after so many seconds.")] = 1e9,
    timeout_s: Annotated[float, typer.Option(help="Seconds one case may take.")] = 300.0,
    budget_s: Annotated[float, typer.Option(help="Seconds each search may take.")] = 60.0,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.HYBRID,
) -> None:
    """Optimize every task and time it against eager PyTorch and torch.compile."""
    from kernelwright.bench.kernelbench import cases, run_level

    numbers = [int(number) for number in only.split(",") if number]
    with progress(f"kernelbench {level}") as say:
        run_level(
            level,
            cases(folder, numbers),
            results=results,
            work=work,
            options={
                "device": device.value,
                "precision": precision.value,
                "mode": mode.value,
                "budget_s": budget_s,
            },
            jobs=jobs,
            deadline_s=time.monotonic() + for_s,
            timeout_s=timeout_s,
            say=say,
        )
