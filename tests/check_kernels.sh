# Distinct kernels of one plan with all its schedules, for real models' shapes: layers share their kernels, so that a plan
# loads fast and a new driver compiles little.  The report says the same number.  The persistent
# form of decoding is one more, which is made while the others already work.  Windows are kept in rings that are shorter
# than the cache of a layer without one, so that what writes or reads a cache comes twice where a model has both.  Targets
# with matrix units have two more sizes of chunks, of 128 and 1024 rows, and products whose tiles hold all of 16 or 64 rows, so
# that there may be half as many again: short prompts are up to 2.5 times as fast for it
# (tests/bench/log/2026-11-23-short-prompts.md), and kernels that the first tokens do not need are made while these are.
# The argument `whole` is the long form: more models.
. "$(dirname "$0")/lib.sh"
whole=${1:-}

count() { # MODEL TARGET
    "$DOPPLERC" "$1.gguf" --target "$2" --emit glsl --quiet >glsl && kernels=$(grep -c '^// kernel [0-9]*:' glsl) ||
        return 1
    persistent=$(grep -c '^// kernel [0-9]*: persistent' glsl)
    echo "$kernels kernels, $persistent of them persistent"
    [ "$persistent" -le 1 ] && [ "$kernels" -ge 10 ] && [ $((kernels - persistent)) -le $limit ]
}

reported() { # MODEL TARGET: the same number in the report's text and JSON
    "$DOPPLERC" "$1" --target "$2" --emit glsl --quiet >glsl && kernels=$(grep -c '^// kernel [0-9]*:' glsl) &&
        "$DOPPLERC" "$1" --target "$2" --report --quiet | grep -q ", $kernels distinct kernels$" &&
        "$DOPPLERC" "$1" --target "$2" --report=report.json --quiet && grep -q "\"distinct_kernels\": $kernels," report.json
}

for model in gemma3-1b ${whole:+llama3.2-1b qwen3-0.6b}; do
    check "$model: made" "$TOOLS/make_gguf" $model q4_0 $model.gguf empty || continue
    for target in tier1 lavapipe nvidia-hopper; do
        limit=24
        [ $model != gemma3-1b ] || limit=28
        [ $target != nvidia-hopper ] || limit=$((limit * 3 / 2))
        check "$model $target: at most $limit distinct kernels" count $model $target
    done
    rm -f $model.gguf
done
# Chunks of few tokens have the tiles of few rows, which hold all of them, and others do not.
few() {
    "$TOOLS/make_gguf" llama3.1-8b:2 "$1" few.gguf empty &&
        "$DOPPLERC" few.gguf --target nvidia-hopper --chunks 16,64,512 --emit plan --quiet >few.txt && awk '/^schedule/ { s = $3 }
            s == "prefill512" && /matmul_coop\// { many++ }
            s == "prefill16" || s == "prefill64" { other += /matmul_coop\//; few += /matmul_coop_(few|own)\// }
            END { print many, few, other; exit many < 4 || few < 8 || other > 0 }' few.txt
    local status=$?
    rm -f few.gguf
    return $status
}
for type in f16 q4_k; do
    check "products of few tokens in $type" few $type
done
# nests NAME...: kernels of these names are printed from nests
nests() {
    "$DOPPLERC" "$SRC/tests/golden/llama" --target nvidia-hopper --chunks 16,128 --emit nest --quiet >nests || return
    local name
    for name in "$@"; do
        grep -qx "nest $name" nests || return
    done
}
check "products on matrix units are nests" nests matmul_coop matmul_coop_few matmul_coop_own
check "the report counts them" reported "$SRC/tests/golden/llama" tier1
finish
