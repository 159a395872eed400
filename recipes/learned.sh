#!/usr/bin/env bash
# Makes the embedded model better by its own judged answers, and measures it. For machines that are
# lent for minutes: the same command resumes a step that was cut short, and ends in time.
#
#   recipes/learned.sh OUT SECONDS             all steps, as far as the time goes
#   recipes/learned.sh OUT SECONDS STEP...     one step, as `supervised` or `table`
#
# Take OUT along to the next machine. Pairs and pools cost the most. `taught` is no part of all steps:
# its pairs of today's operators and of real modules take five hours of processor time.
set -uf
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$(mkdir -p "$1" && cd "$1" && pwd)
END=$(($(date +%s) + $2))
KW=${KW:-python3 -m kernelwright.cli.main}
JUDGES=${JUDGES:-12} # with more judges, tasks of models fill 80 GB
LEVELS=${LEVELS:-20:80 5:400 2:400 1:100} # programs of a pool
MINUTES=${MINUTES:-16.0} # of the training on today's operators
SEEDS="0 1"
STAGES="[{levels={1=1},max_steps=8},{levels={1=1,2=3},max_steps=16},{levels={1=1,2=3,5=3},max_steps=16},{levels={1=1,2=3,5=3,20=2}}]"
WIDE='model.attention="varlen" data.max_tokens=10240 data.levels={1=0.3} batch.step_tokens=20480 batch.micro_tokens=20480' # for a GPU
MODULES="torch.nn.modules transformers.models.llama transformers.models.bert transformers.models.vit
    transformers.models.convnext transformers.models.t5"
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

resumed() { # folder: the option that resumes a training
    [ -e "$1/recipe.json" ] && echo --resume
}

pairs() { # best answers by the cost model, and drawn answers to the same programs
    cp "$ROOT/recipes/data/best.toml" . && step pairs $KW data build best.toml --out pairs
}

train() { # name, recipe, model, seed, settings
    local setting options=()
    for setting in "${@:5}"; do options+=(--set "$setting"); done
    step "$1" $KW train sft "$2" --out "$1" $(resumed "$1") --set "model.path=\"$3\"" --set "seed=$4" "${options[@]}"
}

supervised() { # the shipped model learns the plans of best answers, then whole answers
    local seed
    pairs || return
    for seed in $SEEDS; do
        train "plans-$seed" "$ROOT/recipes/sft/plans.toml" embedded "$seed" $WIDE &&
            train "warm-$seed" "$ROOT/recipes/sft/warm.toml" "plans-$seed/last" "$seed" $WIDE || return
    done
}

taught() { # the shipped model continues on today's operators, any numbers, several results, real modules
    local module
    for module in $MODULES; do
        step "modules-$module" $KW data collect "$module" --out "modules/$module.jsonl" || return
    done
    cp "$ROOT/recipes/data/continued.toml" . && step continued $KW data build continued.toml --out continued &&
        step taught $KW train sft "$ROOT/recipes/sft/embedded.toml" --out taught $(resumed taught) \
            --set 'model.path="embedded"' --set 'data.files=["continued"]' --set optimizer.learning_rate=1e-4 \
            --set "budget.minutes=$MINUTES"
}

programs() { # number, seed
    local level
    for level in $LEVELS; do
        step "programs-$1-${level%:*}" $KW synth --level "${level%:*}" --num "${level#*:}" --seed "$2" \
            --recipe "$ROOT/recipes/pool/programs.toml" -o "programs-$1-${level%:*}.jsonl" || return
    done
}

pool() { # name, model, seed, number of the programs, settings
    local level files= setting options=()
    for level in $LEVELS; do files+="\"programs-$4-${level%:*}.jsonl\","; done
    for setting in "${@:5}"; do options+=(--set "$setting"); done
    programs "$4" "$3" &&
        step "$1" $KW data pool "$ROOT/recipes/pool/embedded.toml" --out "$1" --set "seed=$3" \
            --set "programs.files=[$files]" --set "writer.path=\"$2\"" --set "judging.workers=$JUDGES" \
            --set choice.steps=true "${options[@]}"
}

expert() { # name, model, seed, pools
    local fastest=fastest-$1
    step "$fastest" $KW data fastest "${@:4}" --out "$fastest" &&
        step "$1" $KW train sft "$ROOT/recipes/sft/expert.toml" --out "$1" $(resumed "$1") --set "seed=$3" \
            --set "model.path=\"$2\"" --set "data.files=[\"$fastest\",\"pairs\"]" \
            --set 'data.sources={teacher=0.02,"teacher-best"=0.1}'
}

offline() { # name, model, seed, pool, settings
    local setting options=()
    for setting in "${@:5}"; do options+=(--set "$setting"); done
    step "$1" $KW train rl "$ROOT/recipes/rl/pool.toml" --out "$1" $(resumed "$1") --set "seed=$3" \
        --set "model.path=\"$2\"" --set "rollouts.policy=\"pool:$4\"" "${options[@]}"
}

figures() { # name, policy, options: greedy on synthetic-v1, timed
    step "figures-$1" $KW eval synthetic --policy "$2" --label "$1" --out "figures/$1" --grade recycled \
        --workers "$JUDGES" --levels 1,2,5,20 --timing-s 0.03 "${@:3}"
}

ablations() { # at equal rollouts: the same pool, the same seeds
    local seed name
    for seed in $SEEDS; do
        offline "drpo-$seed" warm-0/last $seed pool-1
        offline "drpo-power-$seed" warm-0/last $seed pool-1 'objective.reward="power_speed"'
        offline "grpo-$seed" warm-0/last $seed pool-1 'objective.loss="grpo"' 'objective.reward="one_plus_log"' \
            objective.contrasts_right=false objective.kl=0.01
        offline "hrd-$seed" warm-0/last $seed pool-1 'objective.loss="hrd"' 'objective.reward="hierarchical"' \
            objective.contrasts_right=false
        offline "mixed-$seed" warm-0/last $seed pool-1 'objective.loss="grpo"' 'objective.reward="mixed"' \
            objective.contrasts_right=false
        offline "by-kernel-$seed" warm-0/last $seed pool-1 'objective.loss="grpo"' 'objective.reward="one_plus_log"' \
            objective.contrasts_right=false objective.kl=0.01 objective.by_kernel=true
        offline "stages-$seed" warm-0/last $seed pool-1 "curriculum.stages=$STAGES"
        offline "fixed-$seed" warm-0/last $seed pool-1 "curriculum.stages=$STAGES" 'curriculum.mix="fixed"'
        for name in drpo drpo-power grpo hrd mixed by-kernel stages fixed; do
            figures "$name-$seed" "hf:$name-$seed/last"
        done
    done
}

hacking() { # the same answers, rewarded by a comparison of values alone; the figures are the full judge's
    local seed
    mkdir -p values && { [ -e values/shards ] || cp -r pool-1/shards values/; } && pool values warm-0/last 1 1 judging.checks='"values"' \
        judging.precision='"kernelbench"' choice.steps=false || return
    for seed in $SEEDS; do
        offline "values-$seed" warm-0/last $seed values judging.precision='"kernelbench"'
        figures "values-$seed" "hf:values-$seed/last"
    done
}

plans() { # the second half alone, on answers without plans
    local seed
    for seed in $SEEDS; do
        train "code-$seed" "$ROOT/recipes/sft/warm.toml" embedded "$seed" $WIDE data.plans=false &&
            figures "code-$seed" "hf:code-$seed/last"
    done
}

table() {
    local name
    for name in shipped-mends {warm,expert,drpo,drpo-power,grpo,hrd,mixed,by-kernel,stages,fixed,values,code}-{0,1} expert-2 taught; do
        [ -e "figures/$name/records.jsonl" ] && echo "$name" && $KW eval compare figures/shipped "figures/$name"
    done
}

all() {
    local seed
    supervised || return
    figures shipped embedded
    figures shipped-mends embedded --mends 2
    for seed in $SEEDS; do figures "warm-$seed" "hf:warm-$seed/last"; done
    pool pool-1 warm-0/last 1 1 || return
    for seed in $SEEDS; do expert "expert-$seed" warm-0/last $seed pool-1 && figures "expert-$seed" "hf:expert-$seed/last"; done
    ablations
    hacking
    plans
    pool pool-2 expert-0/last 2 2 && expert expert-2 expert-0/last 0 pool-1 pool-2 && figures expert-2 hf:expert-2/last
    table
}

if [ $# -gt 2 ]; then "${@:3}"; else all; fi
