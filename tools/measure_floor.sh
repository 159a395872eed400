#!/bin/sh
# Measures what users get beside torch.compile: KernelBench in fp32 and bfloat16, on a GPU.
#
#     tools/measure_floor.sh KERNELBENCH OUT [SECONDS]
#
# Each call goes on where the last one ended. Copy OUT/*/records.jsonl to results/ afterwards and run
# `kernelwright report --summary results`.
set -eu
root=$1 out=$2 seconds=${3:-520}
half=$((seconds / 2))
run() {
    python3 -m kernelwright.cli.main eval kernelbench --root "$root" --policy teacher --jobs 3 "$@"
}
run --out "$out/fp32" --for "$half"
run --out "$out/bf16" --dtype bfloat16 --for "$half"
