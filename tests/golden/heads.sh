# Layers of multi-token prediction: what they give against a computation in plain Python (tests/tools/draft_reference.py), and texts with
# their drafts against texts without.  The models are golden ones with a random layer behind them (tests/tools/add_head.py).
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "layers that draft" "python3 is absent"; finish; }
work=$WORK

model() { # MODEL LIKE SEED: makes the folder MODEL, and its plan
    check "a layer for $1" python3 "$SRC/tests/tools/add_head.py" "$SRC/tests/golden/$1" "$1" "$3" --like "$2" &&
        check "a plan of $1" "$DOPPLERC" "$1" -o "$1.plan" --ctx 64 --kv f32 --act f32 --quiet
}

drafts() { # PLAN MODEL SEED: of a plan, against those of the model
    "$TOOLS/heads" "$1.plan" "$3" 23 3 >"$1.json" || { fail "drafts of $1" "$(head -c 200 "$1.json")"; return; }
    check "drafts of $1" python3 "$SRC/tests/tools/draft_reference.py" "$2" "$1.json"
}

compare() { # MODEL LIKE SEED [gguf]
    model "$1" "$2" "$3" || return
    drafts "$1" "$1" "$3"
    [ $# -gt 3 ] || return 0
    check "$1 as GGUF" "$TOOLS/hf_to_gguf" "$1" "$1.gguf" f32 &&
        check "a plan of $1.gguf" "$DOPPLERC" "$1.gguf" -o "$1_gguf.plan" --ctx 64 --kv f32 --act f32 --quiet && drafts "$1_gguf" "$1" "$3"
}

compare llama deepseek 1
compare qwen3_5 qwen 2 gguf
whole=${1:-}
[ -z "$whole" ] || compare nemotron_h_moe nemotron 8 gguf

# An output over the first tokens of the vocabulary, also of a matrix that is the embedding, and in blocks.
for model in llama ${whole:+qwen3_5}; do
    check "a plan of $model with 200 tokens for drafts" "$DOPPLERC" "$model" -o "${model}_part.plan" --draft-vocabulary 200 \
        --ctx 64 --kv f32 --act f32 --quiet
    check "$model: --info says how many" sh -c '"$1" --info "$2" | grep -q "200 tokens can be drafts"' sh "$EXEC" "${model}_part.plan"
    drafts "${model}_part" "$model" 3
done
check "its kernels" "$EXEC" llama_part.plan --check --quiet
[ -z "$whole" ] || check "its kernels" "$EXEC" qwen3_5_part.plan --check --quiet
check "a plan of blocks with 200 tokens for drafts" "$DOPPLERC" llama -o blocks.plan --draft-vocabulary 200 \
    --quant q4_k --ctx 64 --chunks 8 --sequences 3 --rows 4,16 --quiet
check "its kernels" "$EXEC" blocks.plan --check --quiet
[ -z "$whole" ] || check "texts are those without drafts" "$TOOLS/herd" blocks.plan 3 24 2
check "all of the vocabulary" "$DOPPLERC" llama -o all.plan --draft-vocabulary 320 --ctx 64 --kv f32 --act f32 --quiet
check "is the plan without the option" cmp all.plan llama.plan
check_fails "no layer" 2 "--draft-vocabulary is for models with a layer that drafts" "$DOPPLERC" "$SRC/tests/golden/llama" \
    --draft-vocabulary 200 -o no.plan

# The demo's layer, which was trained (tests/tools/train_head.py): texts unchanged, and drafts that are right.
demo=$SRC/examples/shakespeare-gemma3-draft
check "a plan of the demo with a layer" "$DOPPLERC" "$demo" -o demo.plan --ctx 128 --chunks 8 --rows 4 --kv f32 --act f32 --quiet
check "drafts of the demo's layer" "$TOOLS/drafts" demo.plan 60 1 own
cp .out counts
check "two in five of them right" awk '/^of its own layer/ { right = $5 > 0.4 * $7 } END { exit !right }' counts
check "none but the first tokens come without drafts, also after one that was wrong" \
    awk '/^of its own layer/ { few = $(NF - 3) <= 4 } END { exit !few }' counts
check "a plan of the demo for four" "$DOPPLERC" "$demo" -o four.plan --ctx 128 --chunks 8 --sequences 4 --rows 4,16 --kv f32 --act f32 --quiet
check "steps of four sequences with drafts" "$TOOLS/herd" four.plan 4 40 1
cp .out counts
check "more rows than 8" grep -qE "up to (9|1[0-6]) rows" counts
# Replayed drafts of four sequences, none of which and most of which are right.
"$EXEC" --bench four.plan -p 0 -n 16 -b 4 --drafts 0,90 -r 1 -o csv --quiet >bench.csv ||
    fail "--bench of four with drafts" "$(tail -1 bench.csv)"
accepted() { # PERCENT LEAST MOST: of a test's drafts, the share that was accepted
    awk -F, -v of="tg16b4d$1" -v least="$2" -v most="$3" 'index($0, of "\"") { n = $(NF - 2); x = $(NF - 1) }
        END { exit !(n > 0 && x >= least * n && x <= most * n) }' bench.csv
}
check "drafts of four in --bench: none accepted" accepted 0 0 0
check "drafts of four in --bench: most accepted" accepted 90 0.5 1
# States that steps replace are rolled back.
check "a plan of qwen3_5 for three" "$DOPPLERC" qwen3_5 -o three.plan --ctx 64 --chunks 4 --sequences 3 --rows 4,32 --kv f32 --act f32 --quiet
[ -z "$whole" ] || check "steps of three sequences with states" "$TOOLS/herd" three.plan 3 24 2 # by default walk has these
# A part of a round's rows is accepted: the states after these rows are there, and no row is in two steps.
if [ -n "$whole" ]; then # by default walk has these, too
    check "a plan of qwen3_5 for rounds" "$DOPPLERC" qwen3_5 -o rounds.plan --ctx 64 --chunks 4 --rows 8 --kv f32 --act f32 --quiet
    check "rounds with states" "$TOOLS/drafts" rounds.plan 40 1
    check "kernels that leave a state after each row" "$EXEC" rounds.plan --check --quiet
fi
check "sequences that come, go and go back, with drafts, in processes that are killed" "$TOOLS/walk" three.plan 60 1 saved states 2
if [ -n "$whole" ]; then
    check "a plan of the demo for 16" "$DOPPLERC" "$demo" -o sixteen.plan --ctx 256 --sequences 16 --rows 4,16,64 --kv f32 --act f32 --quiet
    check "steps of 16 sequences with drafts" "$TOOLS/herd" sixteen.plan 16 120 5
    cp .out counts
    check "steps of up to 64 rows" grep -q "up to [3-6][0-9] rows" counts
    rm -rf saved states
    check "1000 operations, some of them in processes that are killed" "$TOOLS/walk" three.plan 1000 2 saved states 8
    check "1000 operations on one sequence" "$TOOLS/walk" rounds.plan 1000 3 saved
    check "1000 operations of the demo" "$TOOLS/walk" sixteen.plan 1000 4 saved
    compare nemotron_h nemotron 9
    compare gemma3 deepseek 3
    compare qwen3 deepseek 4
    compare qwen3_next qwen 5 gguf
    compare deepseek_v3 deepseek 6 gguf
    compare glm4_moe deepseek 7 gguf
fi
finish
