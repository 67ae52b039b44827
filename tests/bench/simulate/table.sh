#!/bin/bash
# What eight devices would make of large llamas: the table of docs/parts.md.  All of it is predicted from stage
# times that were measured on one device (h200-llama-*.yaml); the models are holes of the right size, which take no room on disk.
#
#   tests/bench/simulate/table.sh DOPPLERC MAKE_GGUF
set -eu
dopplerc=$(realpath "$1") make_gguf=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# number KEY: the value of the first such key of parts.json
number() { sed -nE "s/^ *\"$1\": ([0-9.a-z]+),?\$/\\1/p" parts.json | head -n 1; }

row() { # NAME SHAPE TYPE DESCRIPTION OPTION...
    local name=$1 description=$4
    sed "s|h200-llama-q4|$here/h200-llama-${3%_0}|" "$here/$description" >link.yaml
    [ -e "$2-$3" ] || "$make_gguf" "$2" "$3" "$2-$3" empty
    "$dopplerc" "$2-$3" --quiet --target nvidia-hopper --sequences 32 --ctx-total 65536 --rows 4,16,32 --chunks 512 --parts 8 \
        --simulate link.yaml --json "${@:5}" >parts.json
    if [ "$(number fits)" = true ]; then
        printf '| %s | %s | %.0f | %.0f | %.0f |\n' "$name" "$description" "$(number decode_tps)" "$(number sequences_tps)" "$(number prompt_tps)"
    else
        printf '| %s | %s | does not fit | | |\n' "$name" "$description"
    fi
}

echo '| shape | devices and link | one sequence | 32 sequences | pp2048 |'
echo '|---|---|---:|---:|---:|'
for description in consumer-10.yaml consumer-100.yaml h200-host.yaml h200-nvlink.yaml; do
    row '70B q4_0' llama3.1-70b q4_0 $description
    row '70B f16' llama3.1-70b f16 $description
    row '405B q4_0' llama3.1-405b q4_0 $description
    # Its embeddings are larger than an allocation in f16.
    row '405B f16' llama3.1-405b f16 $description --quant embed=q6_k,lm_head=q6_k
done
