# Drafters that read their model's caches (Gemma 4's assistant): what they draft against formulas in plain Python (tests/tools/assistant.py);
# texts with their drafts against texts without; drafters that are not for a model.
# The argument `whole` is the long form: more of them, and steps of several sequences, of which by default golden.heads has those of drafts.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "drafters" "python3 is absent"; finish; }
assistant=$SRC/tests/tools/assistant.py

drafter() { # NAME KEY=VALUE...: makes the folder NAME, and sets $head
    head=$1/drafter
    check "a drafter, $*" python3 "$assistant" make "$@" || return
    [ -e "$head" ] || head=$1/drafter.gguf
}

plan() { # PLAN OPTION...: of the last drafter and its model
    local plan=$1
    shift
    check "its plan $*" "$DOPPLERC" "${head%/*}/model" --draft-head "$head" -o "$plan" --kv f32 --act f32 --quiet "$@"
}

compare() { # NAME KEY=VALUE...
    drafter "$@" && plan "$1.plan" --ctx 64 || return
    "$TOOLS/heads" "$1.plan" 7 23 4 >"$1.json" || { fail "drafts of $1" "$(head -c 200 "$1.json")"; return; }
    check "drafts of $1" python3 "$assistant" check "$1" "$1.json"
}

# Layers of the model share keys and values, and it has inputs of each layer.
compare inputs own=3 inputs=8 clusters=1
check "every kernel" "$EXEC" inputs.plan --check --quiet
check "--info" sh -c '"$1" inputs.plan --info | grep -q "draft: rows of 48 values"' sh "$EXEC"

# A drafter that knows four of five tokens.
compare right real=1 seed=3
plan ring.plan --ctx 256 --chunks 8 --rows 4 # a window's cache is a ring of 96 rows
check "texts with its drafts" "$TOOLS/drafts" ring.plan 120 1 own
cp .out counts
check "half of its drafts are right" awk '/^of its own layer/ { right = $5 > 0.5 * $7 } END { exit !right }' counts
if [ "${1:-}" = whole ]; then
    plan four.plan --ctx 64 --chunks 8 --sequences 4 --rows 4,16
    check "steps of four sequences with its drafts" "$TOOLS/herd" four.plan 4 30 1
    cp .out counts
    check "more rows than 8" grep -qE "up to (9|1[0-6]) rows" counts
    check "drafts that were right" grep -qE "[1-9][0-9]* of [0-9]+ drafts accepted" counts
    check "sequences that come, go and go back" "$TOOLS/walk" four.plan 60 1 saved
fi

refused() { # NAME TEXT [MODEL [DRAFTER]]
    check_fails "$1" 1 "$2" "$DOPPLERC" "${3:-right/model}" --draft-head "${4:-bad}" -o bad.plan
}
change() { # NAME=VALUE...: fields of a copy of a drafter's config.json
    rm -rf bad
    cp -r right/drafter bad
    python3 - "$@" <<'end'
import json, sys
c = json.load(open("bad/config.json"))
for field in sys.argv[1:]:
    key, value = field.split("=", 1)
    (c["text_config"] if key in c["text_config"] else c)[key] = json.loads(value)
json.dump(c, open("bad/config.json", "w"))
end
}
refused "of another hidden size" "this drafter is of another model: its hidden size is 48, the model's 64" "$SRC/tests/golden/gemma4" right/drafter
change backbone_hidden_size=64
refused "for a width that its matrices have not" "tensor pre_projection.weight" "$SRC/tests/golden/gemma4"
change vocab_size=97
refused "of tokens that it has not" "bad/model.safetensors"
change sliding_window=16
refused "of another window" "its layer 0 reads keys of 2 heads of 16 values in a window of 16, and the model has another window"
change num_key_value_heads=1
refused "of other heads" "in a window of 9, and the model has another number of key/value heads"
change head_dim=32
refused "of heads of another size" "bad/model.safetensors"
change num_hidden_layers=4 'layer_types=["sliding_attention", "sliding_attention", "full_attention", "full_attention"]'
refused "of more layers than it has" "tensor model.layers.3."
change hidden_size_per_layer_input=4 vocab_size_per_layer_input=96
refused "with inputs of its own" "hidden_size_per_layer_input is 4: a drafter's layers have no inputs of their own"
change backbone_hidden_size=0
refused "for no width" "backbone_hidden_size"
change
head -c 3000 right/drafter/model.safetensors >bad/model.safetensors
refused "cut short" "bad/model.safetensors"
for part in pre_projection.weight post_projection.weight embed_tokens.weight self_attn.q_norm.weight; do
    change
    LC_ALL=C sed -i "s/${part%????}/${part%????????}gone/" bad/model.safetensors
    refused "damaged: $part" "bad"
done
refused "of a model without such caches" "models of gpt2 have no drafter" "$SRC/tests/golden/gpt2" right/drafter
refused "a model in its place" "this is a model (gemma4), not a drafter" right/model "$SRC/tests/golden/gemma4"
check_fails "a drafter alone" 1 "this is a drafter, not a model" "$DOPPLERC" right/drafter -o bad.plan
python3 "$assistant" make gguf layout=gguf seed=2 same=1 layers=sf
check_fails "a GGUF drafter alone" 1 "this is a drafter, not a model" "$DOPPLERC" gguf/drafter.gguf -o bad.plan

if [ "${1:-}" = whole ]; then
    compare gguf layout=gguf seed=2 same=1 layers=sf
    compare plain seed=4
    compare same seed=5 same=1 inputs=8 layers=sssf
    compare head seed=6 head=1 own=4
    compare gguf_inputs seed=7 layout=gguf own=3 inputs=8 layers=sfsf
    drafter right real=1 seed=3
    plan sixteen.plan --ctx 128 --sequences 16 --rows 4,16,64
    check "steps of 16 sequences" "$TOOLS/herd" sixteen.plan 16 80 5
    cp .out counts
    check "steps of up to 64 rows" grep -q "up to [3-6][0-9] rows" counts
    check "1000 operations" "$TOOLS/walk" sixteen.plan 1000 4 saved
    for options in "--invariant" "--no-fuse" "--quant q8_0" "--act f16 --kv f16" "--weights external" "--target lavapipe,tier1"; do
        # shellcheck disable=SC2086
        plan variant.plan --ctx 64 $options && check "texts with $options" "$TOOLS/drafts" variant.plan 40 2 own
    done
fi
finish
