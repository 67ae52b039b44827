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
finish
