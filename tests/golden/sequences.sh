# Sequences that come and go in random order, beside each other and alone: the same logits (tests/tools/sequences.c).
# Embeddings, and drafts (tests/tools/drafts.c: the same text with and without), of the same plans.
# The argument `whole` is the long form, with more operations over more kinds of models.
. "$(dirname "$0")/../lib.sh"
work=$WORK

# A context of 56 positions has pages of 8, so that texts of 40 tokens take several.
run() { # MODEL OPERATIONS SEED BOUND OPTION...
    local model=$1 operations=$2 seed=$3 bound=$4
    shift 4
    defaults "--ctx 56 --chunks 4,16" "$@"
    check "a plan of $model $*" "$DOPPLERC" "$SRC/tests/golden/$model" -o "$model.plan" --quiet "${OPTIONS[@]}" &&
        check "$operations operations on $model $*" "$TOOLS/sequences" "$model.plan" "$operations" "$seed" "$bound" "$work"
}

if [ "${1:-}" = whole ]; then
    for model in llama gemma2 gpt2 gemma3 phi3 qwen3 mistral_window mixtral qwen3_moe gpt_oss qwen3_5 mamba2 lfm2 falcon_h1 \
        qwen3_next jamba zamba2 nemotron_h granitemoehybrid kimi_linear olmo_hybrid lfm2_moe mamba; do
        run "$model" 2000 7 5e-4 --kv f32 --sequences 6
    done
    run llama 2000 8 2e-2 --sequences 64 --rows 2,8,64
    run llama 2000 9 5e-4 --kv f32 --sequences 3 --no-fuse
    run qwen3 3000 10 5e-4 --kv f32 --sequences 8 --ctx-total 120
    run gemma3 2000 11 5e-4 --kv f32 --sequences 6 --ctx-total 104
    run mixtral 2000 12 2e-2 --sequences 5 --ctx-total 80 --rows 1
    # The same bits in every batch and chunk.
    for model in "$SRC"/tests/golden/*/config.json; do
        model=${model%/config.json}
        run "${model##*/}" 100 14 0 --sequences 5 --invariant --chunks 8
        run "${model##*/}" 60 16 0 --invariant --chunks 8
    done
    for model in llama gemma3 mistral_window qwen3_5; do
        run "$model" 100 15 0 --sequences 5 --invariant --chunks 64 --ctx 400 --kv q8_0
    done
    check "a plan of falcon_h1 for two" "$DOPPLERC" "$SRC/tests/golden/falcon_h1" -o two.plan --ctx 64 --chunks 4 --sequences 2 --rows 2,4 --quiet
    check "drafts, with such states of two sequences" "$TOOLS/drafts" two.plan 40 3 two.plan
    check "steps of both" grep -q '"tg4b2"' <("$EXEC" --bench two.plan -p 0 -n 4 -b 2 -r 1 -o csv --quiet)
    # Heads that are long enough for lanes of a row, as on GPUs.
    printf '%s\n' "base: lavapipe" "name: lanes" "max_workgroup: 256" "cpu: false" >lanes.yaml
    run gemma3_hd256 500 13 2e-2 --sequences 5 --rows 4 --target lanes.yaml
else
    # States that steps replace: what was not accepted is rolled back.
    check "a plan of falcon_h1" "$DOPPLERC" "$SRC/tests/golden/falcon_h1" -o falcon_h1.plan --ctx 64 --chunks 4 --rows 4 --quiet
    check "drafts, with states that steps replace" "$TOOLS/drafts" falcon_h1.plan 40 3 falcon_h1.plan
    run qwen3_5 50 1 5e-4 --kv f32 --sequences 3 --rows 4
    run falcon_h1 40 14 0 --sequences 3 --invariant --chunks 4
    run mistral_window 60 14 0 --invariant --chunks 8 # one sequence, whose windows begin anywhere
    [ -z "${ASAN_OPTIONS:-}" ] || finish # unit.test_sequences and unit.test_speculation do the rest there
    run llama 200 1 5e-4 --kv f32 --sequences 5 --ctx-total 104 --embed
    cp .out ran
    check "pages of a sequence that is gone are found again" grep -q "^a prefix of a sequence that is gone: found in whole pages" ran
    # Embeddings, of more tokens than a piece has.
    tokens="1 17 200 3 90 41 5 260 77 8 9 13 250 31 2 66 54 12 100 7 300 99"
    check "logits" "$EXEC" llama.plan --tokens "$tokens" --logits logits.f32 -n 0 --quiet
    for how in last mean; do
        "$EXEC" llama.plan --tokens "$tokens" --embed=$how --quiet >$how.json
        check "embedding: $how" "$TOOLS/embedding" $how.json "$SRC/tests/golden/llama/model.safetensors" logits.f32 5e-4
    done
    check_fails "an unknown way to pool" 2 "--embed=max: known are cls, mean, last and all" "$EXEC" llama.plan --tokens "1 2" --embed=max
    check_fails "nothing to embed" 1 "there are no tokens" "$EXEC" llama.plan --tokens "" --embed
    # Draws on the device, which targets of CPUs do not make: five ways, by a chi-square test and against what may be drawn.
    printf '%s\n' "base: lavapipe" "name: draws" "max_workgroup: 256" "cpu: false" >draws.yaml
    run llama 20 12 2e-2 --sequences 8 --rows 8 --chunks 4 --target draws.yaml
    cp .out drawn
    check "draws" grep -q "^draws of 5 ways" drawn
    run mistral_window 100 2 2e-2 --sequences 4 --rows 3
    check_fails "--bench of more rows than a step takes" 1 "tg1b4 needs steps of 4 rows and the plan's take 3: compile with --rows 4" \
        "$EXEC" --bench mistral_window.plan -p 0 -n 1 -b 4 --quiet
    check "drafts, with windows" "$TOOLS/drafts" mistral_window.plan 50 1
    check "drafts" "$TOOLS/drafts" llama.plan 50 2 llama.plan
    plain=$("$EXEC" llama.plan --tokens "$tokens" -n 30 --temp 0 --ignore-eos --print-ids --quiet)
    drafted=$("$EXEC" llama.plan --tokens "$tokens" -n 30 --temp 0 --ignore-eos --print-ids --quiet --draft-ngram 1 --draft llama.plan)
    [ "$plain" = "$drafted" ] && pass "--draft and --draft-ngram" || fail "--draft and --draft-ngram" "$plain | $drafted"
    "$EXEC" llama.plan --tokens "$tokens" -n 30 --temp 0.5 --ignore-eos --quiet --json --draft llama.plan >drafted.json
    "$EXEC" --bench llama.plan -p 0 -n 8 --drafts 100 --sampled -r 1 -o csv --quiet >bench.csv
    check "--bench --drafts --sampled" grep -Eq '"tg8d100",.*,[1-9][0-9]*,[0-9]+,[0-9]+,[0-9]+$' bench.csv
    check "they are counted" grep -q '"speculation":{"steps":[1-9]' drafted.json
    check_fails "a plan without hidden states" 1 "compile it with --embed" \
        "$EXEC" mistral_window.plan --tokens "1 2" --embed
fi
check_fails "--ctx-total with one sequence" 2 "--ctx-total is for plans of several --sequences" \
    "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --ctx-total 100
check_fails "--ctx-total below --ctx" 2 "--ctx-total 20 has no room for one sequence of --ctx 56" \
    "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --sequences 2 --ctx 56 --ctx-total 20
# Graphs of all steps are the same up to their logits, also where matrix units and subgroups change them.
same_graphs() { # MODEL TARGET
    "$DOPPLERC" "$SRC/tests/golden/$1" --invariant --chunks 16 --sequences 5 --ctx 64 --target "$2" --emit ir --quiet |
        awk '/^graph/ { n++ } /^  %/ && !/^  %(last|id)[.:]/ { text[n] = text[n] $0 "\n" }
            END { for (i = 2; i <= n; i++) if (text[i] != text[1]) exit 1; exit n < 4 }'
}
for model in llama gemma2 falcon_h1; do
    for target in tier2 nvidia-hopper amd-rdna3; do
        check "--invariant: graphs of $model for $target" same_graphs $model $target
    done
done
check_fails "--invariant has one size" 2 "--invariant has steps of one size: give one to --chunks" \
    "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --invariant --chunks 4,16
check_fails "--invariant --rows" 2 "in one part: leave --rows out" "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --invariant --rows 4
check_fails "--rows wants sizes" 2 "--rows 4,x: expected sizes" "$DOPPLERC" "$SRC/tests/golden/llama" -o no.plan --rows 4,x
finish
