# Windows in rings: far past the window, with a ring that goes round several times, logits are those of a cache that holds
# every position.
. "$(dirname "$0")/../lib.sh"

# Pseudo-random ids below 300.
awk 'BEGIN { x = 7; for (i = 0; i < 240; i++) { x = (x * 69069 + 5) % 4294967296; printf "%d ", 3 + int(x / 65536) % 290 } }' >tokens

# rings NAME MODEL OPTION...: the whole cache is kept where a step may be as long as the context.
rings() {
    local name=$1 model=$SRC/tests/golden/$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o ring.plan --quiet --kv f32 --ctx 240 --chunks 7 "$@" || return
    check "$name: compiles with whole caches" "$DOPPLERC" "$model" -o whole.plan --quiet --kv f32 --ctx 240 --chunks 240 "$@" || return
    check "$name: its caches are rings" grep -q "[0-9]R," <("$DOPPLERC" "$model" --kv f32 --ctx 240 --chunks 7 "$@" --emit ir)
    check "$name: whole caches run" "$EXEC" whole.plan --quiet --tokens-file tokens -n 0 --logits whole.f32 &&
        check "$name: rings agree" "$TOOLS/agree" ring.plan tokens 5e-4 whole.f32
}

rings windows-everywhere mistral_window --target lavapipe
rings windows-differ gemma2 --target lavapipe

# Sequences beside each other, longer than a ring of 96 rows twice over: forked, copied, rewound past what the ring holds,
# cut, saved and restored where it has wrapped, fed in chunks that wrap.
check "sequences: compiles" "$DOPPLERC" "$SRC/tests/golden/mistral_window" -o several.plan --quiet --kv f32 --ctx 220 \
    --chunks 7,16 --sequences 3 --rows 3 --target lavapipe &&
    check "sequences: their caches are rings" grep -q "[0-9]R," <("$DOPPLERC" "$SRC/tests/golden/mistral_window" --kv f32 \
        --ctx 220 --chunks 7,16 --sequences 3 --target lavapipe --emit ir) &&
    check "sequences: 400 operations" "$TOOLS/sequences" several.plan 400 45 5e-4 . 210
finish
