# The same plan on the same device, again and again: the same bits of all logits and the same picks (tests/tools/repeat.c), in one
# process and in others.  With `whole` 100 times, and the demo too.
. "$(dirname "$0")/../lib.sh"
runs=3
[ "${1:-}" = whole ] && runs=100

repeats() { # NAME PLAN
    local first= second=
    first=$("$TOOLS/repeat" "$2" "$runs" barriers) && second=$("$TOOLS/repeat" "$2" 1 barriers) &&
        [ "${first%%:*}" = "${second%%:*}" ] && pass "$1: $first" || fail "$1" "$first; another process: $second"
}

# As errors/memory_run.sh has it: its kernels are compiled once for both.
check "llama: compiles" "$DOPPLERC" "$SRC/tests/golden/llama" -o llama.plan --quiet --target tier2 --chunks 8 --ctx 64 &&
    repeats llama llama.plan
if [ "$runs" -gt 3 ]; then
    check "demo: compiles" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.plan --quiet --target lavapipe --ctx 256 &&
        repeats demo demo.plan
fi
# Seeds are for the command line too.
say() {
    "$EXEC" llama.plan --quiet --tokens "1 2 3" -n 12 --temp 1.5 --ignore-eos --print-ids --seed "$1"
}
one=$(say 5) two=$(say 5) three=$(say 6)
if [ -n "$one" ] && [ "$one" = "$two" ] && [ "$one" != "$three" ]; then
    pass "a seed gives the same tokens, another one others"
else
    fail "seeds" "$one; $two; $three"
fi
finish
