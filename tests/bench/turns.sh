#!/bin/bash
# The turns of an agent: time to the first token of each turn, with what is new in it and what is read of it.
#
#   turns.sh [--bin DIR] [--turns N] [--system N] [--result N] [--branches N] [--type TYPE] [--out DIR] [SHAPE...]
#
# SHAPE: of make_gguf, with random weights (default qwen3.5-4b gemma3-4b falcon-h1-1.5b mamba2-2.7b), or
# a plan (NAME.plan) or a model that dopplerc reads.
# A system prompt of 8000 tokens and results of 2000 in each of 20 turns, unless told.  Prints the rows of turn 1, of turn 2, of the last
# one and of prompts that part; then the same turns with files, and a second process that goes on from them.  Then 16 sequences at once that
# share the first 30000 tokens, unless told (0: none), in a pool of pages for one of them and the ends of all.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$root/build turns=20 system=8000 result=2000 branches=30000 type=q8_0 out=$(mktemp -d) shapes=()
while [ $# -gt 0 ]; do
    case $1 in
    --bin) bin=$2 ;; --turns) turns=$2 ;; --system) system=$2 ;; --result) result=$2 ;; --branches) branches=$2 ;; --type) type=$2 ;; --out) out=$2 ;;
    --*) echo "turns.sh: unknown option $1" >&2 && exit 2 ;;
    *) shapes+=("$1") && shift && continue ;;
    esac
    shift 2
done
[ ${#shapes[@]} -gt 0 ] || shapes=(qwen3.5-4b gemma3-4b falcon-h1-1.5b mamba2-2.7b)
mkdir -p "$out"
tools=$bin/tests/tools
compiler=$bin/dopplerc
[ -x "$compiler" ] || compiler=$tools/dopplerc
ctx=$(((system + (turns + 1) * (result + 16) + 1023) / 1024 * 1024))
for shape in "${shapes[@]}"; do
    plan=$out/$(basename "$shape").plan
    if [ "${shape%.plan}" != "$shape" ]; then
        plan=$shape
    elif [ -e "$shape" ]; then
        "$compiler" "$shape" -o "$plan" --ctx "$ctx" --quiet
    else
        "$tools/make_gguf" "$shape" "$type" "$out/$shape.gguf" peaked && "$compiler" "$out/$shape.gguf" -o "$plan" --ctx "$ctx" --quiet
    fi
    states=$out/states.$(basename "$shape")
    rm -rf "$states"
    echo "== $shape: on the device"
    "$tools/turns" "$plan" "$turns" "$system" "$result" 4096 0 | grep -E "^turn (1|2|$turns|100[01]|1015):|turns and"
    echo "== $shape: with files, and on from them in another process"
    { "$tools/turns" "$plan" "$turns" "$system" "$result" 4096 0 "$states" || true; } | grep -E "^turn (2|$turns):|files"
    "$tools/turns" "$plan" "$turns" "$system" "$result" 4096 0 "$states" again
    du -sh "$states"
    rm -rf "$states"
    model=$shape
    [ -e "$model" ] || model=$out/$shape.gguf
    if [ "$branches" -gt 0 ] && [ "$plan" != "$shape" ]; then
        echo "== $shape: 16 at once"
        pool=$(((branches + 16 * 1024 + 1023) / 1024 * 1024))
        "$compiler" "$model" -o "$out/branches.plan" --ctx "$pool" --ctx-total "$pool" --sequences 16 --quiet &&
            "$tools/branches" "$out/branches.plan" 16 "$branches" 64 32 1 4096
        rm -f "$out/branches.plan"
    fi
    rm -f "$out/$shape.gguf"
done
