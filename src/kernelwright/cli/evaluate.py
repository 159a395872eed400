"""`kernelwright eval`: benchmark suites through the whole product, as records."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli import eval_kernelbench, eval_synthetic
from kernelwright.cli.console import out, progress
from kernelwright.cli.eval_options import BudgetOption, JobsOption, TimeoutOption, search_options
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    Mode,
    ModeOption,
    Precision,
    PrecisionOption,
)
from kernelwright.policy.names import TEACHER

app = typer.Typer(no_args_is_help=True, help="Run benchmark suites; results are records.")


app.command("kernelbench")(eval_kernelbench.command)
app.command("synthetic")(eval_synthetic.command)


@app.command("modules")
def modules(
    specs: Annotated[list[str], typer.Argument(metavar="PACKAGE.MODULE:FACTORY ...")],
    folder: Annotated[
        Path, typer.Option("--out", help="Folder for records.jsonl; cases in it are not run again.")
    ] = Path("out/modules"),
    jobs: JobsOption = 1,
    timeout_s: TimeoutOption = 600.0,
    budget_s: BudgetOption = 300.0,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.HYBRID,
) -> None:
    """Optimize modules that factories make, and time them against eager PyTorch."""
    from kernelwright.bench.suite import Run, module_cases, run_suite

    run = Run(
        suite="modules",
        policy=TEACHER,
        out=folder,
        options=search_options(device, precision, mode, budget_s) | {"policy": TEACHER},
        jobs=jobs,
        deadline_s=float("inf"),
        timeout_s=timeout_s,
    )
    with progress("modules") as say:
        run_suite(run, module_cases(specs), say)


@app.command("throughput")
def throughput(
    folder: Annotated[Path, typer.Option("--out", help="New folder for records.jsonl.")],
    programs: Annotated[int, typer.Option(min=1, help="Level-1 programs.")] = 256,
    candidates_each: Annotated[int, typer.Option(min=1, help="Candidates of each.")] = 8,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Judges at once.", show_default="one a core")
    ] = None,
    grade: GradeOption = Grade.RECYCLED,
    timing: Annotated[bool, typer.Option(help="Time what is accepted (GPU only).")] = False,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Measure how many candidates are judged a second, and where the time goes."""
    from kernelwright.bench.throughput import Plan, lines_of, measure

    plan = Plan(
        device=device.value,
        grade=grade.value,
        timing=timing,
        programs=programs,
        candidates_each=candidates_each,
        num_workers=workers,
    )
    with progress("throughput") as say:
        found = measure(plan, folder, say)
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in lines_of(found):
        table.add_row(label, Text(text))
    out.print(table)


@app.command("corpus")
def corpus(
    results: Annotated[Path, typer.Option("--out", help="JSONL file, written anew.")],
    root: Annotated[Path, typer.Option(help="Folder with cheats/, honest/ and tasks/.")] = Path(
        "tests/corpus"
    ),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Judges at once.", show_default="one a core")
    ] = None,
    kernelbench: Annotated[
        Path | None,
        typer.Option(metavar="CHECKOUT", help="KernelBench's checker reads the files as well."),
    ] = None,
    grade: GradeOption = Grade.FRESH,
    device: DeviceOption = Device.AUTO,
) -> None:
    """Judge cheats and honest kernels; `report --matrix` makes the page from the records."""
    from kernelwright.bench.corpus import Plan, is_right, run_corpus

    plan = Plan(
        root=root,
        out=results,
        device=device.value,
        jobs=jobs or os.cpu_count() or 1,
        kernelbench=kernelbench,
        grade=grade.value,
    )
    with progress("corpus") as say:
        found = run_corpus(plan, say)
    cases = [line for line in found if line["record"] == "corpus_case"]
    for case in cases:
        if not is_right(case):
            text = f"{case['kind']}/{case['name']}: {case['code']}: {case.get('message', '')}"
            out.print(text, markup=False, soft_wrap=True)
    out.print(f"{sum(map(is_right, cases))} of {len(cases)} judged as they should be", markup=False)


@app.command("synth")
def synth(
    results: Annotated[Path, typer.Option("--out", help="JSONL file, added to.")],
    level: Annotated[int | None, typer.Option(min=1, help="Draw programs of this level.")] = None,
    num: Annotated[int, typer.Option(min=1, help="How many.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    recipe: Annotated[
        Path | None, typer.Option(metavar="TOML", show_default="balanced weights")
    ] = None,
    execute: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="Run the programs there too.")
    ] = None,
    uniformity: Annotated[
        int, typer.Option(min=0, help="Test small spaces; draws for each of their programs.")
    ] = 0,
    solver: Annotated[
        int, typer.Option(min=0, help="Draw sizes beside CP-SAT under so many seeds.")
    ] = 0,
    quality: Annotated[
        bool, typer.Option("--quality", help="Only count which programs are tasks, and why not.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes.", show_default="one a core")
    ] = None,
) -> None:
    """Measure the program sampler: uniformity, coverage, speed, whether programs run."""
    from kernelwright.bench import quality as qualities
    from kernelwright.bench import solver as solving
    from kernelwright.bench import synth as figures
    from kernelwright.core import record
    from kernelwright.synth.recipe import Recipe

    used = Recipe.of({"weights": "balanced"}) if recipe is None else Recipe.load(recipe)
    about = {"environment": record.environment(), "recipe": used.to_json()}
    with progress("synth") as say:
        for found in figures.uniformity(uniformity, seed) if uniformity else ():
            record.append(results, [{**found, "environment": about["environment"]}])
            out.print(f"{found['space']}: {found['programs']} programs, p = {found['p']:.3g}")
        for found in solving.comparison(solver, seed) if solver else ():
            record.append(results, [{**found, "environment": about["environment"]}])
            out.print(
                f"{found['measure']}: {found['different_draws']} of {found['draws']} draws differ"
                f" ({found['draw_cpu_ms']:.2f} ms), {found['different_solutions']} of"
                f" {found['solver_seeds']} solutions ({found['solver_cpu_ms']:.1f} ms)"
            )
        if level is not None and quality:
            found = qualities.quality(used, level, num, seed, workers or os.cpu_count() or 1, say)
            record.append(results, [{**found, **about}])
            out.print(f"level {level}: {found['passed']} of {found['attempts']} pass")
            out.print(found["refused"], found["cpu_ms"])
        elif level is not None:
            plan = figures.Plan(recipe=used, level=level, num=num, seed=seed, device=execute)
            found = figures.programs(plan, workers or os.cpu_count() or 1, say)
            record.append(results, [{**found, **about}])
            spread = found["spread"]
            missing = {k: v for k, v in spread.items() if k.endswith("_missing")}
            out.print(f"level {level}: {found['draw_cpu_ms']:.2f} ms a program, {missing}")
            out.print(found.get("executed", ""), markup=False)
