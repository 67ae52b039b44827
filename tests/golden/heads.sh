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

# The demo's layer, which was trained (tests/tools/train_head.py): texts unchanged, and drafts that are right.
demo=$SRC/examples/shakespeare-gemma3-draft
check "a plan of the demo with a layer" "$DOPPLERC" "$demo" -o demo.plan --ctx 128 --chunks 8 --rows 4 --kv f32 --act f32 --quiet
check "drafts of the demo's layer" "$TOOLS/drafts" demo.plan 60 1 own
cp .out counts
check "two in five of them right" awk '/^of its own layer/ { right = $5 > 0.4 * $7 } END { exit !right }' counts
check "a plan of the demo for four" "$DOPPLERC" "$demo" -o four.plan --ctx 128 --chunks 8 --sequences 4 --rows 4,16 --kv f32 --act f32 --quiet
check "steps of four sequences with drafts" "$TOOLS/herd" four.plan 4 40 1
cp .out counts
check "more rows than 8" grep -qE "up to (9|1[0-6]) rows" counts
# States that steps replace are rolled back.
check "a plan of qwen3_5 for three" "$DOPPLERC" qwen3_5 -o three.plan --ctx 64 --chunks 4 --sequences 3 --rows 4,32 --kv f32 --act f32 --quiet
check "steps of three sequences with states" "$TOOLS/herd" three.plan 3 24 2
if [ "${1:-}" = whole ]; then
    check "a plan of the demo for 16" "$DOPPLERC" "$demo" -o sixteen.plan --ctx 256 --sequences 16 --rows 4,16,64 --kv f32 --act f32 --quiet
    check "steps of 16 sequences with drafts" "$TOOLS/herd" sixteen.plan 16 120 5
    cp .out counts
    check "steps of up to 64 rows" grep -q "up to [3-6][0-9] rows" counts
    compare gemma3 deepseek 3
    compare qwen3 deepseek 4
    compare qwen3_next qwen 5
    compare deepseek_v3 deepseek 6
    compare glm4_moe deepseek 7
fi
finish
