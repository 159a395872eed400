#!/usr/bin/env bash
# Makes the embedded model, and measures it beside what it might have been. On a machine of four
# GPUs: pairs by all cores, then the training on two of them and shorter ones, which leave something
# out or put something in, on the others, then figures. A step that is done, or was cut short, is
# gone on with by the same command.
#
#   recipes/embedded.sh OUT                        all of it
#   recipes/embedded.sh OUT pairs [inductor]       the teacher's, or Inductor's
#   recipes/embedded.sh OUT train NAME GPUS        GPUS as in CUDA_VISIBLE_DEVICES
#   recipes/embedded.sh OUT figures NAME GPU WHAT  greedy, answers (greedy, no times), gap or spread
#   recipes/embedded.sh OUT kernelbench CHECKOUT   level 2, the model as the only writer
set -uf
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$(mkdir -p "$1" && cd "$1" && pwd)
KW=${KW:-python3 -m kernelwright.cli.main}
MINUTES=${MINUTES:-16} # of the model that ships
RATE=${RATE:-1e-3}     # where trainings go on with the model FROM ("embedded": the one that ships)
LESS=${LESS:-8}        # of each it is compared with, also of `alone`, which is as it but for that
JUDGES=${JUDGES:-14}   # a GPU
cd "$OUT" || exit

pairs() { # [inductor]
    local folder=pairs${1:+-$1}
    $KW data build "$ROOT/recipes/data/${1:-main}.toml" --out "$folder" > "$folder.log" 2>&1
}

settings() { # name: what it has in place of the recipe's
    case $1 in
        embedded) echo "budget.minutes=$MINUTES" "batch.step_tokens=122880" ;;
        alone) echo "budget.minutes=$LESS" ;;
        no-plans) echo "budget.minutes=$LESS" "data.plans=false" ;;
        one-answer) echo "budget.minutes=$LESS" "data.answers=1" ;;
        inductor) echo "budget.minutes=$LESS" 'data.files=["pairs","pairs-inductor"]' "data.sources={inductor=10}" ;;
    esac
    [ -n "${FROM:-}" ] && echo "model.path=\"$FROM\"" "optimizer.learning_rate=$RATE"
}

train() { # name, GPUs
    local name=$1 gpus=$2 options=() start=$KW
    for each in $(settings "$name"); do options+=(--set "$each"); done
    [ -e "$name/recipe.json" ] && options+=(--resume)
    [[ $gpus == *,* ]] && start="torchrun --standalone --nproc-per-node=$(wc -w <<< "${gpus//,/ }") -m kernelwright.cli.main"
    CUDA_VISIBLE_DEVICES=$gpus $start train sft "$ROOT/recipes/sft/embedded.toml" --out "$name" --workers "$(nproc)" \
        --set data.tokens=\"tokens\" "${options[@]}" > "$name.log" 2>&1
}

figures() { # name of a model, or policy, GPU, what
    local name=$1 gpu=$2 what=$3 policy=$1 options=()
    [ -d "$name" ] && policy=hf:$name/best
    case $what in
        answers) options=(--no-timing --levels 1,2,5,20) ;;
        gap) options=(--no-timing --programs pairs/train.jsonl --programs pairs/validation.jsonl --limit 100) ;;
        spread) options=(-n 64 --temperature 1.0 --levels 1,2,5,20 --limit 4) ;;
    esac
    mkdir -p figures
    CUDA_VISIBLE_DEVICES=$gpu $KW eval synthetic --policy "$policy" --label "$name" --out "figures/$name-$what" \
        --grade recycled --workers "$JUDGES" "${options[@]}" > "figures/$name-$what.log" 2>&1
}

kernelbench() { # checkout
    $KW eval kernelbench --root "$1" --levels 2 --policy "hf:embedded/best" --out kernelbench --jobs 24 > kernelbench.log 2>&1
}

all() {
    pairs && pairs inductor || return
    (train embedded 0,1 && figures embedded 0 greedy) &
    (train alone 2 && train no-plans 2 && figures alone 2 answers && figures no-plans 2 answers) &
    (train one-answer 3 && train inductor 3 && figures one-answer 3 answers && figures inductor 3 answers) &
    wait
    figures embedded 1 gap &
    figures embedded 2 spread &
    figures teacher 3 greedy & # what it was taught by: the most it can be
    wait
}

if [ $# -gt 1 ]; then shift && "$@"; else all; fi
