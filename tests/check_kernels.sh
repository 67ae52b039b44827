# Distinct kernels of one plan with all its schedules, for real models' shapes: layers share their kernels, so that a plan
# loads fast and a new driver compiles little.  The report says the same number.  The persistent
# form of decoding is one more, which is made while the others already work.  Windows are kept in rings that are shorter
# than the cache of a layer without one, so that what writes or reads a cache comes twice where a model has both.  Targets
# with matrix units have a fourth size of chunks, of 1024 rows, whose products and attention may be four more: they are made
# while the first tokens are, and make prompts of that length 7 to 24% faster (tests/bench/RESULTS.md).
. "$(dirname "$0")/lib.sh"

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

for model in llama3.2-1b gemma3-1b qwen3-0.6b; do
    check "$model: made" "$TOOLS/make_gguf" $model q4_0 $model.gguf empty || continue
    for target in tier1 lavapipe nvidia-hopper; do
        limit=24
        [ $model != gemma3-1b ] || limit=28
        [ $target != nvidia-hopper ] || limit=$((limit + 4))
        check "$model $target: at most $limit distinct kernels" count $model $target
    done
    rm -f $model.gguf
done
check "the report counts them" reported "$SRC/tests/golden/llama" tier1
finish
