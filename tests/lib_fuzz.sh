# A short run of one fuzzer (tests/fuzz) over seeds made from what the programs really read.  Run by ctest with the
# fuzzer as argument.  The same seed of random numbers every time: a failure can be repeated.
. "$(dirname "$0")/lib.sh"
fuzzer=$1
runs=8000
mkdir seeds
"$DOPPLERC" "$SRC/tests/golden/llama" -o llama.plan --quiet --chunks 8 --ctx 64 || exit 1

# kind LETTER FILE: a seed whose first byte says what the rest is
kind() {
    { printf %s "$1" && cat "$2"; } >"seeds/$1$(basename "$2")"
}

case $(basename "$fuzzer") in
fuzz_ir)
    for model in llama mixtral mamba2; do # between them: attention, experts, recurrences
        "$DOPPLERC" "$SRC/tests/golden/$model" -o unused.plan --quiet --emit ir >ir || exit 1
        csplit -s -z -f "seeds/ir-$model-" ir '/^graph /' '{*}'
    done
    ;;
fuzz_grammar)
    runs=3000
    grep -oE '"schema": .*, "says"|^  [{].*[^],]' "$SRC/tests/grammar/corpus.json" |
        sed -E 's/^"schema": //; s/, "says"$//' | awk '/^ *[{]/ { print "S" $0 > ("seeds/schema-" NR) }'
    sed -nE 's/^ *\{"grammar": "(([^"\\]|\\.)*)".*/\1/p' "$SRC/tests/grammar/corpus.json" |
        awk '{ gsub(/\\n/, "\n"); gsub(/\\"/, "\""); gsub(/\\\\/, "\\"); printf "G%s", $0 > ("seeds/grammar-" NR) }'
    ;;
fuzz_plan)
    cp llama.plan seeds/
    ;;
fuzz_tokenizer)
    kind J "$SRC/examples/shakespeare-gemma3/tokenizer.json"
    own=$SRC/tests/tokenizers
    for name in unigram wordpiece; do
        { printf J && cat "$own/$name/tokenizer.json"; } >"seeds/J$name"
    done
    kind J "$own/tekken/tekken.json"
    for name in spm-unigram spm-bpe; do
        { printf P && cat "$own/$name/tokenizer.model"; } >"seeds/P$name"
    done
    { echo 'T ?[a-z]+|.' && cat "$own/tiktoken/small.tiktoken"; } >seeds/tiktoken
    for letter in U W; do
        printf 'D%s\001\002\003' $letter >"seeds/D$letter"
    done
    cat >template <<'T'
{{ bos_token }}{% for m in messages %}<|{{ m["role"] }}|>
{{ m.content | trim }}{% if loop.last %}.{% endif %}{% endfor %}
T
    kind C template
    cat >macro <<'T'
{% macro f(a, b=[1, 2]) -%}{{ a ~ b[0] }}{%- endmacro %}{% set x = namespace(n=0) %}{{ f(x.n) }}
T
    kind C macro
    for gguf in "$SHARED"/models/*gguf/*.gguf; do
        [ -e "$gguf" ] && head -c 200000 "$gguf" >"$(basename "$gguf")" && kind G "$(basename "$gguf")"
    done
    ;;
esac
check "$(basename "$fuzzer"): survives" "$fuzzer" seeds -runs=$runs -max_total_time=8 -seed=1 -rss_limit_mb=4096 \
    -timeout=20 -print_final_stats=1
grep -h 'stat::number_of_executed_units' .out
finish
