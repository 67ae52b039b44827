# Sequences that come and go in random order, beside each other and alone: the same logits (tests/tools/sequences.c).
# The argument `whole` is the long form, with more operations over more kinds of models.
. "$(dirname "$0")/../lib.sh"
work=$WORK

# A context of 40 positions has pages of 8, so that texts of 40 tokens take several.
run() { # MODEL OPERATIONS SEED BOUND OPTION...
    local model=$1 operations=$2 seed=$3 bound=$4
    shift 4
    check "a plan of $model $*" "$DOPPLERC" "$SRC/tests/golden/$model" -o "$model.plan" --ctx 40 --chunks 4,16 --quiet "$@" &&
        check "$operations operations on $model $*" "$TOOLS/sequences" "$model.plan" "$operations" "$seed" "$bound" "$work"
}

if [ "${1:-}" = whole ]; then
    for model in llama gemma2 gpt2 gemma3 phi3 qwen3 mistral_window mixtral qwen3_moe gpt_oss; do
        run "$model" 2000 7 5e-4 --kv f32 --sequences 6
    done
    run llama 2000 8 2e-2 --sequences 64 --rows 2,8,64
    run llama 2000 9 5e-4 --kv f32 --sequences 3 --no-fuse
    run qwen3 3000 10 5e-4 --kv f32 --sequences 8 --ctx-total 120
    run gemma3 2000 11 5e-4 --kv f32 --sequences 6 --ctx-total 104
    run mixtral 2000 12 2e-2 --sequences 5 --ctx-total 80 --rows 1
else
    run llama 500 1 5e-4 --kv f32 --sequences 5 --ctx-total 104
    run mistral_window 200 2 2e-2 --sequences 3 --rows 3
fi
check_fails "recurrent layers: one sequence" 1 "such plans hold one sequence at a time" \
    "$DOPPLERC" "$SRC/tests/golden/lfm2" -o no.plan --sequences 2
check_fails "--rows wants sizes" 2 "--rows 4,x: expected sizes" "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --rows 4,x
finish
