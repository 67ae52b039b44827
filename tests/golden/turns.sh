# Twenty turns of an agent, then prompts that part: what is read, and the logits (tests/tools/turns.c), of models with windows, recurrent
# layers and both.  The argument `whole`: more of them, and plans for one sequence and for several.
. "$(dirname "$0")/../lib.sh"

plan() { # MODEL SEQUENCES
    check "a plan of $1 for $2" "$DOPPLERC" "$SRC/tests/golden/$1" -o "$1.plan" --ctx 1500 --chunks 32 --kv f32 --sequences "$2" --quiet
}
turns() { # MODEL SEQUENCES
    plan "$1" "$2" && check "turns of $1 for $2" "$TOOLS/turns" "$1.plan" 20 200 50 32 5e-4
}

# Prompts in files: a process that is killed, and another one that goes on.
killed() { # MODEL
    rm -rf states
    local status=0
    { "$TOOLS/turns" "$1.plan" 4 200 50 32 5e-4 states >.out 2>&1 || status=$?; } 2>/dev/null
    [ $status -eq 137 ] && pass "turns of $1, killed" || fail "turns of $1, killed" "$(cat .out)"
    check "another process goes on" "$TOOLS/turns" "$1.plan" 4 200 50 32 5e-4 states again
    [ "$(stat -c %a states states/*.states | sort -u | tr '\n' ' ')" = "600 700 " ] && pass "files are private" || fail "files are private"
    # Damaged, cut short and strange files are read again, and those that are damaged go.
    local f n=0
    for f in states/*-p-*.states states/*-r-*.states; do
        [ -e "$f" ] || continue
        n=$((n + 1))
        case $((n % 3)) in
        0) head -c 200 "$f" >cut && mv cut "$f" ;;
        1) printf X | dd of="$f" bs=1 seek=300 conv=notrunc status=none ;;
        *) : >"$f" ;;
        esac
    done
    echo strange >states/README
    "$TOOLS/turns" "$1.plan" 4 200 50 32 5e-4 states again >.out 2>&1
    grep -q "more is read than what is new" .out && pass "damaged files are not used" || fail "damaged files are not used" "$(cat .out)"
    rm -rf states
}

if [ "${1:-}" = whole ]; then
    for model in llama gemma2 gemma3 mistral_window gpt_oss qwen3_5 falcon_h1 mamba mamba2 lfm2 qwen3_next jamba zamba2 nemotron_h \
        granitemoehybrid kimi_linear olmo_hybrid lfm2_moe gemma4 gemma3n minimax_m2 cohere2; do
        turns "$model" 1
        killed "$model"
        turns "$model" 3
        killed "$model"
    done
else
    turns mistral_window 3
    plan mamba2 1
    killed mamba2
fi
finish
