# Layers of multi-token prediction: what they give against a computation in plain Python (tests/tools/draft_reference.py), and texts with
# their drafts against texts without.  The models are golden ones with a random layer behind them (tests/tools/add_head.py).
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "layers that draft" "python3 is absent"; finish; }
work=$WORK

model() { # MODEL LIKE SEED: makes the folder MODEL, and its plan
    check "a layer for $1" python3 "$SRC/tests/tools/add_head.py" "$SRC/tests/golden/$1" "$1" "$3" --like "$2" &&
        check "a plan of $1" "$DOPPLERC" "$1" -o "$1.plan" --ctx 64 --kv f32 --act f32 --quiet
}

compare() { # MODEL LIKE SEED [OPTION...]
    local name=$1
    model "$1" "$2" "$3" || return
    "$TOOLS/heads" "$name.plan" "$3" 23 3 >"$name.json" || { fail "drafts of $name" "$(head -c 200 "$name.json")"; return; }
    check "drafts of $name" python3 "$SRC/tests/tools/draft_reference.py" "$name" "$name.json"
}

compare llama deepseek 1
compare qwen3_5 qwen 2
if [ "${1:-}" = whole ]; then
    compare gemma3 deepseek 3
    compare qwen3 deepseek 4
    compare qwen3_next qwen 5
    compare deepseek_v3 deepseek 6
    compare glm4_moe deepseek 7
fi
finish
