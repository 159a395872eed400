#!/bin/sh
# Measures what users get beside torch.compile: KernelBench in fp32 and bfloat16, on all GPUs here.
#
#     tools/measure_floor.sh KERNELBENCH OUT [SECONDS]
#
# Each call goes on where the last one ended. Copy OUT/*/records.jsonl to results/ afterwards and run
# `python -m tools.pages readme`.
set -eu
root=$1 out=$2 seconds=${3:-520}
half=$((seconds / 2))
jobs=$((3 * $(nvidia-smi --list-gpus | wc -l)))
# The published reports of the linter hold for both: a task is linted before it is cast.
for name in fp32 bf16; do
    mkdir -p "$out/$name"
    [ -e "$out/$name/lint.jsonl" ] || cp results/lint-kernelbench.jsonl "$out/$name/lint.jsonl"
done
run() {
    python3 -m kernelwright.cli.main eval kernelbench --root "$root" --policy teacher --jobs "$jobs" "$@"
}
run --out "$out/fp32" --for "$half"
run --out "$out/bf16" --dtype bfloat16 --for "$half"
