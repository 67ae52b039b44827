# Memory, and what else a device or a system may refuse, that runs out somewhere while a plan is opened and run, while a
# text is tokenized, or while a grammar is made: an error with a message, wherever that happens (tests/faults/fail_runtime.c).  By default for some of
# the points that each place makes; with `whole` for every one.
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/golden
whole=${1:-}

# Other runs in release than with sanitizers, which have what the first ones do not see.
fails() { # NAME WHAT FILE EVERY
    local every=$(($4 * 4))
    [ -n "${ASAN_OPTIONS:-}" ] || every=$(($4 * 4 + 1))
    [ -z "$whole" ] || every=0
    check "$1" "$TOOLS/fail_runtime" "$2" "$3" $every
}

check "llama: compiles" "$DOPPLERC" "$golden/llama" -o llama.plan --quiet --target tier2 --chunks 8 --ctx 64 &&
    fails "llama: opened and run" run llama.plan 3
fails "tokenizer.json alone" text "$SRC/examples/shakespeare-gemma3/tokenizer.json" 5
fails "a directory with a chat template" text "$SRC/examples/shakespeare-gemma3" 5
# Runs of some milliseconds, in which a failure that is forgotten makes another grammar.
check "grammars of a schema and of GBNF" "$TOOLS/fail_runtime" grammar "$SRC/examples/shakespeare-gemma3/tokenizer.json" \
    "$([ -n "$whole" ] && echo 0 || { [ -z "${ASAN_OPTIONS:-}" ] && echo 1 || echo 5; })"
for kind in spm-bpe spm-unigram tiktoken tekken wordpiece; do
    fails "tokenizer: $kind" text "$SRC/tests/tokenizers/$kind" 20
done
finish
