#!/usr/bin/env bash
# Makes the embedded model better by its own judged answers, and measures it. For machines that are
# lent for minutes: a step that is done, or was cut short, is gone on with by the same command, which
# ends in time.
#
#   recipes/learned.sh OUT SECONDS             all of it, as far as the time goes
#   recipes/learned.sh OUT SECONDS table       what is there so far
#
# What is in OUT comes along to the next machine: pairs and pool are what costs most.
set -uf
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$(mkdir -p "$1" && cd "$1" && pwd)
END=$(($(date +%s) + $2))
KW=${KW:-python3 -m kernelwright.cli.main}
JUDGES=${JUDGES:-12} # with more, tasks of models fill 80 GB
NUM=${NUM:-400}      # programs of each level in a pool
cd "$OUT" || exit

left() {
    local seconds=$((END - $(date +%s) - 10))
    echo $((seconds > 1 ? seconds : 1))
}

step() { # name, command: once, and while there is time
    [ -e "$1.done" ] && return
    [ "$(left)" -lt 30 ] && return 1
    echo "$(date +%T) $1"
    timeout --signal=INT --kill-after=9 "$(left)" "${@:2}" > "$1.log" 2>&1 && touch "$1.done"
}

resumed() { # folder: the option that goes on with a training
    [ -e "$1/recipe.json" ] && echo --resume
}

supervised() { # the shipped model on today's operators, several results and any numbers
    step pairs $KW data build "$ROOT/recipes/data/main.toml" --out pairs &&
        step taught $KW train sft "$ROOT/recipes/sft/embedded.toml" --out taught $(resumed taught) \
            --set 'model.path="embedded"' --set optimizer.learning_rate=5e-4 --set budget.minutes=8.0
}

pool() { # name, model, seed
    step "programs-$1" $KW synth --level 1,2,5,20 --num "$NUM" --seed "$3" \
        --recipe "$ROOT/recipes/pool/programs.toml" -o "programs-$1.jsonl" &&
        step "$1" $KW data pool "$ROOT/recipes/pool/embedded.toml" --out "$1" --set "seed=$3" \
            --set "programs.files=[\"programs-$1.jsonl\"]" --set "writer.path=\"$2\"" --set "judging.workers=$JUDGES"
}

expert() { # name, model, seed, pools
    local pairs=fastest-$1
    step "$pairs" $KW data fastest "${@:4}" --out "$pairs" &&
        step "$1" $KW train sft "$ROOT/recipes/sft/expert.toml" --out "$1" $(resumed "$1") --set "seed=$3" \
            --set "model.path=\"$2\"" --set "data.files=[\"$pairs\",\"pairs\"]" --set 'data.sources={teacher=0.01}'
}

offline() { # name, model, seed, pool, settings
    local options=()
    for each in "${@:5}"; do options+=(--set "$each"); done
    step "$1" $KW train rl "$ROOT/recipes/rl/pool.toml" --out "$1" $(resumed "$1") --set "seed=$3" \
        --set "model.path=\"$2\"" --set "rollouts.policy=\"pool:$4\"" "${options[@]}"
}

figures() { # name, policy: greedy on synthetic-v1, timed
    step "figures-$1" $KW eval synthetic --policy "$2" --label "$1" --out "figures/$1" --grade recycled \
        --workers "$JUDGES" --levels 1,2,5,20 --timing-s 0.03
}

ablations() { # at equal rollouts: the same pool, the same seeds
    local seed
    for seed in 0 1; do
        offline "drpo-$seed" taught/last $seed pool-1
        offline "drpo-power-$seed" taught/last $seed pool-1 'objective.reward="power_speed"'
        offline "grpo-$seed" taught/last $seed pool-1 'objective.loss="grpo"' 'objective.reward="one_plus_log"' \
            objective.contrasts_right=false objective.kl=0.01
        offline "hrd-$seed" taught/last $seed pool-1 'objective.loss="hrd"' 'objective.reward="hierarchical"' \
            objective.contrasts_right=false
        offline "mixed-$seed" taught/last $seed pool-1 'objective.loss="grpo"' 'objective.reward="mixed"' \
            objective.contrasts_right=false
        for name in drpo drpo-power grpo hrd mixed; do figures "$name-$seed" "hf:$name-$seed/last"; done
    done
}

table() {
    for name in taught expert-0 expert-1 drpo-0 drpo-1 drpo-power-0 drpo-power-1 grpo-0 grpo-1 hrd-0 hrd-1 mixed-0 mixed-1 expert-2; do
        [ -e "figures/$name/records.jsonl" ] && echo "$name" && $KW eval compare figures/shipped "figures/$name"
    done
}

all() {
    figures shipped embedded
    supervised && figures taught hf:taught/last
    pool pool-1 taught/last 1 || return
    for seed in 0 1; do expert "expert-$seed" taught/last $seed pool-1 && figures "expert-$seed" "hf:expert-$seed/last"; done
    ablations
    pool pool-2 expert-0/last 2 && expert expert-2 expert-0/last 0 pool-1 pool-2 && figures expert-2 hf:expert-2/last
    table
}

"${3:-all}"
