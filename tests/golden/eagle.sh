# Drafters (EAGLE-3): what steps send them and what they give, against formulas in plain Python (tests/tools/eagle.py); texts with their
# drafts against texts without; drafters that are not for a model.  The argument `whole` is the long form: more of them, of more models, and
# steps of several sequences, of which by default golden.heads has those of drafts.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
command -v python3 >/dev/null || { skip "drafters" "python3 is absent"; finish; }
eagle=$SRC/tests/tools/eagle.py

drafter() { # NAME KEY=VALUE...: makes the folder NAME, and sets $model and $head
    local name=$1
    shift
    model=$name/model head=$name/drafter
    check "a drafter, $name: $*" python3 "$eagle" make "$name" "$@" || return
    [ -e "$head" ] || head=$name/drafter.gguf
    for key in "$@"; do
        case $key in model=*) model=${key#model=} ;; esac
    done
}

plan() { # PLAN OPTION...: of the last drafter and its model
    local plan=$1
    shift
    check "its plan $*" "$DOPPLERC" "$model" --draft-head "$head" -o "$plan" --kv f32 --act f32 --quiet "$@"
}

compare() { # NAME KEY=VALUE...
    drafter "$@" && plan "$1.plan" --ctx 64 || return
    "$TOOLS/heads" "$1.plan" 7 11 3 >"$1.json" || { fail "drafts of $1" "$(head -c 200 "$1.json")"; return; }
    check "drafts of $1" python3 "$eagle" check "$1" "$1.json"
}

# GGUF, and the kernels.
compare gguf layout=gguf seed=3 vocab=50 embeds=0 fc=1 taps=2,3,6
check "every kernel" "$EXEC" gguf.plan --check --quiet
check "--info" sh -c '"$1" gguf.plan --info | grep -q "draft: rows of 48 values; 50 tokens can be drafts"' sh "$EXEC"

# "speculators", and a drafter that is right about the tokens that it can draft.
compare right real=1 vocab=80 seed=4
check "texts with its drafts" "$TOOLS/drafts" right.plan 40 1 own
cp .out counts
check "a third of its drafts are right" awk '/^of its own layer/ { right = $5 > 0.33 * $7 } END { exit !right }' counts
if [ -n "$whole" ]; then
    plan four.plan --ctx 64 --chunks 8 --sequences 4 --rows 4,16
    check "steps of four sequences with its drafts" "$TOOLS/herd" four.plan 4 30 1
    cp .out counts
    check "more rows than 8" grep -qE "up to (9|1[0-6]) rows" counts
    check "drafts that were right" grep -qE "[1-9][0-9]* of [0-9]+ drafts accepted" counts
    # States that steps replace are rolled back; sequences are saved and loaded.
    compare states layout=original model="$SRC/tests/golden/qwen3_5" vocab=100 taps=0,1,2 normed=0
    plan three.plan --ctx 64 --chunks 4 --sequences 3 --rows 4,16
    check "sequences that come, go and go back" "$TOOLS/walk" three.plan 60 1 saved
fi
# The original layout.
compare original layout=original seed=2 vocab=0 taps= embeds=0 normed=0

# Without a plan: the drafter's files are a part of what the plan is found by.
export LD_LIBRARY_PATH=$TOOLS/as_written
run() { # OPTION...
    "$EXEC" right/model --draft-head right/drafter --cache-dir kept --kv f32 --act f32 --ctx 64 --tokens "1 2 3" -n ${1:-12} --print-ids
}
check "a model with a drafter in place of a plan" sh -c 'exec "$@" >text' sh "$EXEC" right/model --draft-head right/drafter --cache-dir kept \
    --kv f32 --act f32 --ctx 64 --tokens "1 2 3" -n 12 --print-ids
check "its plan is there" sh -c '[ "$(ls kept/plans/*.plan | wc -l)" -eq 1 ]'
run >again 2>said
check "the same text from it" cmp text again
check "and drafts" grep -q "drafts accepted" said
cp right/drafter/config.json config.json
sed -i 's/"norm_output": false/"norm_output": true/' right/drafter/config.json
run 1 >again 2>&1
cp config.json right/drafter/config.json
check "another drafter makes another plan" sh -c '[ "$(ls kept/plans/*.plan | wc -l)" -eq 2 ]'
check_fails "a drafter with a plan" 2 "--draft-head is part of the plan" "$EXEC" right.plan --draft-head right/drafter --tokens 1

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
    (c["transformer_layer_config"] if key in c["transformer_layer_config"] else c)[key] = json.loads(value)
json.dump(c, open("bad/config.json", "w"))
end
}
refused "of another hidden size" "this drafter is of another model: its hidden size is 48, the model's 64" "$SRC/tests/golden/llama" right/drafter
refused "of another vocabulary" "this drafter is of another model: it knows 128 tokens, the model 160" "$SRC/tests/golden/mistral4" right/drafter
change 'eagle_aux_hidden_state_layer_ids=[2, 3, 7]'
refused "of a deeper model" "it reads layer 7, and the model has 6"
change 'eagle_aux_hidden_state_layer_ids="all"'
refused "layers that are no list" "is no list of up to 8 layers"
change 'eagle_aux_hidden_state_layer_ids=[2, -1]'
refused "layers that are none" "[1] is no layer"
change 'eagle_aux_hidden_state_layer_ids=[2, 3]'
refused "fewer layers than its matrix is for" "tensor fc.weight"
change draft_vocab_size=41
refused "tokens that its matrices lack" "bad/model.safetensors"
change draft_vocab_size=1000
refused "more tokens than there are" "draft_vocab_size 1000 is more than vocab_size 128"
change num_hidden_layers=2
refused "of two layers" "a drafter of 2 layers is not supported"
change target_hidden_size=96
refused "between two sizes" "a drafter of hidden size 48 for models of 96 is not supported"
change 'speculators_model_type="dflash"'
refused "of another kind" "speculators_model_type \"dflash\" is not supported"
change norm_before_fc=true
refused "without a norm that it states" "tensor input_norm.weight is missing"
change
head -c 3000 right/drafter/model.safetensors >bad/model.safetensors
refused "cut short" "bad/model.safetensors"
for part in fc.weight hidden_norm.weight d2t; do
    change
    LC_ALL=C sed -i "s/${part%??}/${part%??????}_gone/" bad/model.safetensors
    refused "damaged: $part" "bad"
done
for byte in 377 177; do # a token far outside, and one of the next vocabulary
    change
    python3 - "$byte" <<'end'
import json, struct, sys
data = bytearray(open("bad/model.safetensors", "rb").read())
n = struct.unpack("<Q", data[:8])[0]
at = json.loads(data[8:8 + n])["d2t"]["data_offsets"]
data[8 + n + at[1] - 8] = int(sys.argv[1], 8)
open("bad/model.safetensors", "wb").write(data)
end
    refused "a list with a token that is none" "names a token that is none of 128"
done
refused "a model in its place" "this is a model (llama), not a drafter (EAGLE-3, Gemma 4's assistant)" right/model "$SRC/tests/golden/llama"
refused "nothing in its place" "nothing: error: " right/model nothing
check_fails "a drafter alone" 1 "this is a drafter, not a model" "$DOPPLERC" right/drafter -o bad.plan
check_fails "a GGUF drafter alone" 1 "this is a drafter, not a model" "$DOPPLERC" gguf/drafter.gguf -o bad.plan
check_fails "parts" 2 "--draft-head is for plans of one part" "$DOPPLERC" right/model --draft-head right/drafter --parts 2 -o bad.plan

if [ -n "$whole" ]; then
    compare plain seed=1 vocab=40
    compare prefixed layout=model seed=5 vocab=100 own_embed=1 fc=1 taps=2,3,6
    compare each layout=original seed=6 each=1 output=1 vocab=30 taps=1,5 embeds=0 bias=1
    compare own_gguf layout=gguf seed=7 vocab=0 head=0 own_embed=1
    compare borrowed seed=8 vocab=0 head=0 embeds=0 taps=0,6
    for name in llama gemma3 mistral_window mixtral qwen3_moe qwen3_next nemotron_h deepseek_v3 falcon_h1 gpt_oss granite; do
        compare "$name" model="$SRC/tests/golden/$name" vocab=60 taps=0,1,2 seed=9
        plan "$name.three.plan" --ctx 64 --chunks 4 --sequences 3 --rows 4,16
        check "operations on $name" "$TOOLS/walk" "$name.three.plan" 200 2 saved
    done
    drafter right real=1 vocab=80 seed=4
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
