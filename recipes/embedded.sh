#!/usr/bin/env bash
# Makes the embedded model, and measures it beside what it might have been: pairs by all cores, then
# a training on each of four GPUs, then figures. A step that is done, or was cut short, is gone on
# with by the same command.
#
#   recipes/embedded.sh OUT [pairs|train|figures|kernelbench CHECKOUT ...]
set -u
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$(mkdir -p "$1" && cd "$1" && pwd)
KW=${KW:-kernelwright}
MINUTES=${MINUTES:-8}
JUDGES=${JUDGES:-12} # a GPU
cd "$OUT" || exit

# The model that ships, and what is left out or changed in the others, one a GPU.
NAMES=(embedded no-plans one-answer words)
CHANGES=(
    ""
    "--set data.plans=false"
    "--set data.answers=1"
    "--set model.fresh.longest=\"word\" --set data.max_tokens=16384"
)

pairs() {
    $KW data build "$ROOT/recipes/data/main.toml" --out pairs > pairs.log 2>&1
}

train() { # GPU
    local name=${NAMES[$1]} more=""
    [ -e "$name/recipe.json" ] && more=--resume
    # shellcheck disable=SC2086
    CUDA_VISIBLE_DEVICES=$1 $KW train sft "$ROOT/recipes/sft/embedded.toml" --out "$name" --workers "$(nproc)" --set data.tokens=\"tokens\" \
        --set budget.minutes="$MINUTES" ${CHANGES[$1]} $more > "$name.log" 2>&1
}

ask() { # GPU, model or policy, what, options of eval synthetic
    local gpu=$1 name=$2 what=$3 policy=$2
    shift 3
    [ -d "$name" ] && policy=hf:$name/best
    CUDA_VISIBLE_DEVICES=$gpu $KW eval synthetic --policy "$policy" --label "$name" --out "figures/$name-$what" \
        --grade recycled --workers "$JUDGES" "$@" > "figures/$name-$what.log" 2>&1
}

figures() { # GPU
    local name=${NAMES[$1]}
    case $name in
        embedded)
            ask "$1" "$name" greedy
            ask "$1" "$name" spread -n 64 --temperature 1.0 --levels 1,2,5,20 --limit 4
            ;;
        no-plans)
            ask "$1" "$name" greedy --no-timing --levels 1,2,5,20
            ask "$1" embedded gap --no-timing --programs pairs/train.jsonl --programs pairs/validation.jsonl --limit 100
            ;;
        one-answer) ask "$1" "$name" greedy --no-timing --levels 1,2,5,20 ;;
        words)
            ask "$1" "$name" greedy --no-timing --levels 1,2,5,20
            ask "$1" teacher first # what it was taught by: the most it can be
            ;;
    esac
}

kernelbench() { # checkout
    $KW eval kernelbench --root "$1" --levels 2 --policy "hf:embedded/best" --out kernelbench --jobs 24 > kernelbench.log 2>&1
}

each_gpu() {
    for gpu in 0 1 2 3; do "$1" $gpu & done
    wait
}

mkdir -p figures
case ${2:-all} in
    pairs) pairs ;;
    train) each_gpu train ;;
    figures) each_gpu figures ;;
    kernelbench) kernelbench "$3" ;;
    all) pairs && each_gpu train && each_gpu figures ;;
esac
