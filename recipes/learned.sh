#!/usr/bin/env bash
# Makes the embedded model better by its own judged answers, and measures it. For machines that are
# lent for minutes: the same command resumes a step that was cut short, and ends in time.
#
#   recipes/learned.sh OUT SECONDS             all steps, as far as the time goes
#   recipes/learned.sh OUT SECONDS STEP...     one step, as `supervised` or `table`
#
# All GPUs of the machine are used: runs that differ in seed or objective go side by side. Take OUT
# along to the next machine. Pools cost the most. Two steps are no part of all steps:
# `supervised` trains the model START further on the teacher's best answers, as stages 2 and 3 of the
# shipped model did. `taught` has pairs of today's operators and of real modules: five hours of processor time.
set -uf
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$(mkdir -p "$1" && cd "$1" && pwd)
END=$(($(date +%s) + $2))
KW=${KW:-python3 -m kernelwright.cli.main}
GPUS=${GPUS:-$(nvidia-smi --list-gpus 2> /dev/null | wc -l)}
((GPUS)) || GPUS=1
JOBS=${JOBS:-1} # trainings, or evaluations, that share a GPU. Times are taken by one process at a time
JUDGES=${JUDGES:-12} # a GPU: with more judges, tasks of models fill 80 GB
LEVELS=${LEVELS:-20:60 5:240 2:180 1:30} # programs of a pool
POOL_S=${POOL_S:-400}   # a pool that takes longer is learned from as far as the pool is judged
SEEDS="0 1"
START=${START:-embedded} # the model that all trainings begin with: the one that ships, or a folder
STAGES="[{levels={1=1},max_steps=8},{levels={1=1,2=3},max_steps=16},{levels={1=1,2=3,5=3},max_steps=16},{levels={1=1,2=3,5=3,20=2}}]"
MODULES="torch.nn.modules transformers.models.llama transformers.models.bert transformers.models.vit
    transformers.models.convnext transformers.models.t5"
[ -d "$START" ] && START=$(cd "$START" && pwd)
cd "$OUT" || exit

left() { # [most]: seconds of the time that is left, at most so many
    local seconds=$((END - $(date +%s) - 10)) most=${1:-100000}
    ((seconds > most)) && seconds=$most
    echo $((seconds > 1 ? seconds : 1))
}

step() { # name, command: once, and while there is time; LIMIT is the most seconds
    [ -e "$1.done" ] && return
    [ "$(left)" -lt 30 ] && return 1
    echo "$(date +%T) $1"
    timeout --signal=INT --kill-after=9 "$(left "${LIMIT:-}")" "${@:2}" > "$1.log" 2>&1 && touch "$1.done"
}

side_by_side() { # GPUs of a job, jobs: on all GPUs; a job that finds none waits
    local width=$(($1 < GPUS ? $1 : GPUS)) places slots slot job first
    places=$((GPUS / width)) && slots=$((places * JOBS)) && shift
    for ((slot = 0; slot < slots; slot++)); do
        first=$((slot % places * width))
        (
            export CUDA_VISIBLE_DEVICES=$(seq -s, $first $((first + width - 1)))
            export MASTER_PORT=$((29500 + slot))
            for ((job = slot + 1; job <= $#; job += slots)); do ${!job}; done
        ) &
    done
    wait
}

resumed() { # folder: the option that resumes a training
    [ -e "$1/recipe.json" ] && echo --resume
}

settings() { # the settings as options, into the array `options`
    local setting
    options=()
    for setting in "$@"; do options+=(--set "$setting"); done
}

train() { # name, recipe, seed, settings: by one process a GPU
    local options start=$KW gpus=${CUDA_VISIBLE_DEVICES:-}
    gpus=${gpus//[^,]/}
    [ "$gpus" ] && start="python3 -m torch.distributed.run --master-port=$MASTER_PORT --nproc-per-node=$((${#gpus} + 1)) -m kernelwright.cli.main"
    settings "${@:4}"
    step "$1" $start train "${2%%/*}" "$ROOT/recipes/$2" --out "$1" $(resumed "$1") --set "seed=$3" "${options[@]}"
}

pairs() { # best answers by the cost model, and drawn answers to the same programs
    cp "$ROOT/recipes/data/best.toml" . && step pairs $KW data build best.toml --out pairs
}

replay() { # few pairs of the same kinds, beside the fastest answers of pools
    cp "$ROOT/recipes/data/replay.toml" . && step replay $KW data build replay.toml --out replay
}

best() { # name, seed, settings: START learns the best answers
    train "$1" sft/best.toml "$2" "model.path=\"$START\"" 'data.tokens="tokens"' "${@:3}"
}

supervised() {
    local seed jobs=()
    for seed in $SEEDS; do jobs+=("best warm-$seed $seed"); done
    pairs && side_by_side 1 "${jobs[@]}"
}

taught() { # START continues on today's operators, any numbers, several results, real modules
    local module
    for module in $MODULES; do
        step "modules-$module" $KW data collect "$module" --out "modules/$module.jsonl" || return
    done
    cp "$ROOT/recipes/data/continued.toml" . && step continued $KW data build continued.toml --out continued &&
        side_by_side 4 "best taught 0 data.files=[\"continued\"] data.tokens=\"tokens-continued\""
}

programs() { # number, seed
    local level
    for level in $LEVELS; do
        step "programs-$1-${level%:*}" $KW synth --level "${level%:*}" --num "${level#*:}" --seed "$2" \
            --recipe "$ROOT/recipes/pool/programs.toml" -o "programs-$1-${level%:*}.jsonl" || return
    done
}

pool() { # name, model, seed, number of the programs, settings
    local level files= options
    for level in $LEVELS; do files+="\"programs-$4-${level%:*}.jsonl\","; done
    settings "${@:5}"
    programs "$4" "$3" || return
    LIMIT=$POOL_S step "$1" $KW data pool "$ROOT/recipes/pool/embedded.toml" --out "$1" --set "seed=$3" \
        --set "programs.files=[$files]" --set "writer.path=\"$2\"" --set "judging.workers=$((JUDGES * GPUS))" \
        "${options[@]}"
    [ -e "$1/judged" ]
}

figures() { # name, policy, options: greedy on synthetic-v1, timed
    step "figures-$1" $KW eval synthetic --policy "$2" --label "$1" --out "figures/$1" --grade recycled \
        --workers "$((JUDGES / JOBS))" --levels 1,2,5,20 --timing-s 0.03 "${@:3}"
}

expert() { # name, model, seed, pools
    local fastest=fastest-$1
    step "$fastest" $KW data fastest "${@:4}" --out "$fastest" &&
        train "$1" sft/expert.toml "$3" "model.path=\"$2\"" "data.files=[\"$fastest\",\"replay\"]"
}

offline() { # name, model, seed, pool, settings
    train "$1" rl/pool.toml "$3" "model.path=\"$2\"" "rollouts.policy=\"pool:$4\"" validation.programs=8 "${@:5}"
}

measured() { # levels, names: figures of the trained models
    local name jobs=()
    for name in "${@:2}"; do [ -e "$name.done" ] && jobs+=("figures $name hf:$name/last --levels $1"); done
    side_by_side 1 "${jobs[@]}"
}

learned() { # from the verdicts of pool-1: DRTriton's objective, and expert iteration
    local seed jobs=() names=()
    replay || return
    for seed in $SEEDS; do
        jobs+=("offline drpo-$seed $START $seed pool-1" "expert expert-$seed $START $seed pool-1")
        names+=(drpo-$seed expert-$seed)
    done
    side_by_side 1 "${jobs[@]}" && measured 1,2,5,20 "${names[@]}"
}

compared() { # other objectives at equal rollouts: the same pool, the same start, the same seeds; in this order
    local seed grpo jobs=() names=()
    local grouped='objective.loss="grpo" objective.contrasts_right=false'
    for seed in $SEEDS; do
        grpo="$grouped objective.reward=\"one_plus_log\" objective.kl=0.01"
        jobs+=("offline grpo-$seed $START $seed pool-1 $grpo"
            "offline hrd-$seed $START $seed pool-1 objective.loss=\"hrd\" objective.reward=\"hierarchical\" objective.contrasts_right=false"
            "offline mixed-$seed $START $seed pool-1 $grouped objective.reward=\"mixed\""
            "offline drpo-power-$seed $START $seed pool-1 objective.reward=\"power_speed\""
            "offline stages-$seed $START $seed pool-1 curriculum.stages=$STAGES"
            "offline fixed-$seed $START $seed pool-1 curriculum.stages=$STAGES curriculum.mix=\"fixed\""
            "offline by-kernel-$seed $START $seed pool-1 $grpo objective.by_kernel=true")
        names+=({grpo,hrd,mixed,drpo-power,stages,fixed,by-kernel}-$seed)
    done
    side_by_side 1 "${jobs[@]}" && measured 2,5 "${names[@]}"
}

hacking() { # the same answers, rewarded by a comparison of values alone; the figures are the full judge's
    local seed jobs=() names=()
    mkdir -p values && { [ -e values/shards ] || cp -r pool-1/shards values/; } &&
        pool values "$START" 1 1 judging.checks='"values"' judging.precision='"kernelbench"' || return
    for seed in $SEEDS; do
        jobs+=("offline values-$seed $START $seed values judging.precision=\"kernelbench\"") && names+=(values-$seed)
    done
    side_by_side 1 "${jobs[@]}" && measured 2,5 "${names[@]}"
}

plans() { # the same pairs without plans
    pairs && best code-0 0 data.plans=false 'data.tokens="tokens-code"' && figures code-0 hf:code-0/best
}

table() {
    local name
    for name in shipped-mends {drpo,expert,grpo,hrd,mixed,drpo-power,stages,fixed,by-kernel,values,code}-{0,1} expert-2 taught; do
        [ -e "figures/$name/records.jsonl" ] && echo "$name" && $KW eval compare figures/shipped "figures/$name"
    done
}

all() {
    local policy=$START
    [ -d "$START" ] && policy=hf:$START
    side_by_side 1 "figures shipped $policy" "figures shipped-mends $policy --mends 2"
    pool pool-1 "$START" 1 1 choice.steps=true && learned && compared
    hacking
    [ -e expert-0.done ] && pool pool-2 expert-0/last 2 2 &&
        side_by_side 1 "expert expert-2 expert-0/last 0 pool-1 pool-2" && measured 1,2,5,20 expert-2
    side_by_side 2 plans # last, because its pairs take hours of a core
    table
}

if [ $# -gt 2 ]; then "${@:3}"; else all; fi
