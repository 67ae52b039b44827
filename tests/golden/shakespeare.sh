# The demo model: greedy ids and text of its prompts, its tokenizer, and the perplexity of text it was not trained on; with
# `whole` as argument (the long form) of all of the text, which takes minutes on a software device, and of more prompts.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
model=$SRC/examples/shakespeare-gemma3
expected=$model/expected.json

ids() { # NAME PLAN CASE
    "$TOOLS/expect" tokens "$expected" "$3" >prompt
    "$EXEC" "$2" --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids \
        -n "$("$TOOLS/expect" count "$expected" "$3")" >"$1"
}

text() { # PLAN CASE: the same from text to text; the prompt through a file, which keeps its last newline
    "$TOOLS/expect" print "$expected" "$2.prompt" | head -c -1 >prompt.txt
    "$EXEC" "$1" --quiet -f prompt.txt --no-display-prompt --temp 0 --ignore-eos \
        -n "$("$TOOLS/expect" count "$expected" "$2")" >text &&
        [ "$(cat text)" = "$("$TOOLS/expect" print "$expected" "$2.text")" ]
}

near() { # VALUE REFERENCE RELATIVE
    awk -v v="$1" -v r="$2" -v b="$3" 'BEGIN { d = v - r; if (d < 0) d = -d; print v, "against", r; exit !(d <= b * r) }'
}

perplexity() { # PLAN TEXT REFERENCE
    "$EXEC" "$1" --quiet --ppl "$2" --ppl-ctx 256 >ppl.json && near "$("$TOOLS/expect" print ppl.json perplexity)" "$3" 0.005
}

# Activations stored in 16 bits: within 1% of those in 32 on less of that text.
narrow() { # NARROW-PLAN
    "$EXEC" "$1" --quiet --ppl less --ppl-ctx 256 >narrow.json &&
        near "$("$TOOLS/expect" print narrow.json perplexity)" "$("$TOOLS/expect" print f16.json perplexity)" 0.01
}

# Every text of tokenizer_vectors.json becomes the ids beside it, through the plan and without one.
vectors() { # PLAN
    local vectors=$model/tokenizer_vectors.json n
    n=$("$TOOLS/expect" vectors "$vectors" texts.jsonl ids.jsonl) && [ "$n" -eq 7 ] &&
        "$EXEC" "$1" --quiet --tokenize texts.jsonl >got-ids.jsonl && cmp got-ids.jsonl ids.jsonl &&
        "$EXEC" --quiet --tokenizer "$model/tokenizer.json" --tokenize texts.jsonl >got-ids.jsonl && cmp got-ids.jsonl ids.jsonl
}

# What must not happen per token is counted, not assumed.
nothing_per_token() { # PLAN
    "$EXEC" "$1" --quiet -p ROMEO: -n 20 --ignore-eos --json >run.json &&
        [ "$("$TOOLS/expect" print run.json afterLoad.deviceAllocations)" = 0 ] &&
        [ "$("$TOOLS/expect" print run.json afterLoad.commandBufferRecordings)" = 0 ] &&
        [ "$("$TOOLS/expect" print run.json afterLoad.submissions)" -le 21 ]
}

# At most 6 dispatches for a layer of Gemma-3 when decoding; --info says so.
dispatches() { # PLAN
    "$EXEC" "$1" --info | tee info | grep -qE '^schedules +decode1: [0-9]+ dispatches, .* [1-6] in each of'
}

if [ -n "$whole" ]; then
    for kv in f32 f16; do
        check "$kv: compiles" "$DOPPLERC" "$model" -o $kv.plan --quiet --kv $kv
        check "$kv: perplexity of all held-out text" perplexity $kv.plan "$model/heldout.txt" \
            "$("$TOOLS/expect" print "$expected" heldout_perplexity)"
    done
fi
check "f32: compiles" "$DOPPLERC" "$model" -o f32.plan --quiet --kv f32
check "default: compiles" "$DOPPLERC" "$model" -o default.plan --quiet
for prompt in greedy.2 long_prompt ${whole:+greedy.0 greedy.1 greedy.3}; do
    check "f32: generates $prompt" ids f32.ids f32.plan $prompt &&
        check "f32: every id of $prompt" "$TOOLS/expect" ids "$expected" $prompt f32.ids 0
    check "f32: text of $prompt" text f32.plan $prompt
    check "default: generates $prompt" ids default.ids default.plan $prompt &&
        check "default: ids of $prompt" "$TOOLS/expect" ids "$expected" $prompt default.ids 0.05
done
check "default: tokenizer vectors" vectors default.plan
check "default: no allocation or recording per token, one submit" nothing_per_token default.plan
check "default: at most 6 dispatches per layer" dispatches default.plan
# What a plan with an f32 cache makes of the beginning, which is as near to the reference over all of the text (`whole`).
head -c 6000 "$model/heldout.txt" >beginning
check "default: perplexity of held-out text" perplexity default.plan beginning 49.411
# Caches in blocks: perplexity of less of that text, beside the cache of f16.
head -c 2000 "$model/heldout.txt" >less
blocks() { # TYPE BOUND
    "$EXEC" "$1.plan" --quiet --ppl less --ppl-ctx 256 >ppl.json &&
        near "$("$TOOLS/expect" print ppl.json perplexity)" "$("$TOOLS/expect" print f16.json perplexity)" "$2"
}
"$EXEC" default.plan --quiet --ppl less --ppl-ctx 256 >f16.json
check "f16 activations: compiles" "$DOPPLERC" "$model" -o narrow.plan --quiet --act f16
check "f16 activations: perplexity of held-out text" narrow narrow.plan
for kv in "q8_0 0.001" "q4_0 0.01"; do
    set -- $kv
    check "$1 cache: compiles" "$DOPPLERC" "$model" -o "$1.plan" --quiet --kv "$1" && check "$1 cache: perplexity" blocks "$1" "$2"
done
mixed() {
    "$DOPPLERC" "$model" -o mixed.plan --quiet --kv v=q4_0,k=q8_0 && "$EXEC" mixed.plan --check
}
check "keys in q8_0, values in q4_0: --check" mixed
finish
