# Twenty turns of an agent, then prompts that part: what is read, and the logits (tests/tools/turns.c), of models with windows, recurrent
# layers and both.  The argument `whole`: more of them, and plans for one sequence and for several.
. "$(dirname "$0")/../lib.sh"

turns() { # MODEL SEQUENCES
    check "a plan of $1 for $2" "$DOPPLERC" "$SRC/tests/golden/$1" -o "$1.plan" --ctx 1500 --chunks 32 --kv f32 --sequences "$2" --quiet &&
        check "turns of $1 for $2" "$TOOLS/turns" "$1.plan" 20 200 50 32 5e-4
}

if [ "${1:-}" = whole ]; then
    for model in llama gemma2 gemma3 mistral_window gpt_oss qwen3_5 falcon_h1 mamba mamba2 lfm2 qwen3_next jamba zamba2 nemotron_h \
        granitemoehybrid kimi_linear olmo_hybrid lfm2_moe gemma4 gemma3n minimax_m2 cohere2; do
        turns "$model" 1
        turns "$model" 3
    done
else
    turns mistral_window 3
    turns mamba2 1
fi
finish
