# Weights that are not finite, and what becomes of logits then: one error that says so, whoever picks, and no access out of
# bounds in steps that run ahead of a pick that is none.  With the argument `whole` (the long form) for one target more.
. "$(dirname "$0")/../lib.sh"
"$TOOLS/expect" tokens "$SRC/tests/golden/llama3_rope_tied/expected.json" . >prompt

printf '%s\n' "base: tier1" "name: tier1" "subgroup: 8" >tier1.yaml

# poisoned NAME TENSOR INDEX VALUE TARGET: makes NAME.plan.
poisoned() {
    rm -rf model && cp -r "$SRC/tests/golden/llama3_rope_tied" model && chmod -R u+w model
    check "$1: poisoned" "$TOOLS/poison" model/model.safetensors "$2" "$3" "$4" &&
        check "$1: compiles" "$DOPPLERC" model -o "$1.plan" --quiet --target "$5" --chunks 8
}
# refused NAME WHAT OPTION...
refused() {
    check_fails "$1: $2" 1 "are not finite" "$EXEC" "$1.plan" --quiet --tokens-file prompt --ignore-eos --print-ids "${@:3}"
}
targets="lavapipe tier1.yaml"
[ "${1:-}" != whole ] || targets+=" tier2"
for target in $targets; do
    # A norm's weight: all logits.  A row of the embedding, which is the head too: one logit of each row.
    poisoned "nan-${target%.yaml}" model.norm.weight 3 nan $target
    refused "nan-${target%.yaml}" "one greedy token" --temp 0 -n 1
    refused "nan-${target%.yaml}" "greedy" --temp 0 -n 24
    refused "nan-${target%.yaml}" "greedy, several tokens per read-back" --temp 0 -n 24 --gpu-loop 8
    poisoned "inf-${target%.yaml}" model.embed_tokens.weight 200 inf $target
    refused "inf-${target%.yaml}" "one greedy token" --temp 0 -n 1
    refused "inf-${target%.yaml}" "greedy" --temp 0 -n 24
done
refused nan-lavapipe "sampled" --temp 1 -n 4
refused nan-lavapipe "one sampled token" --temp 1 -n 1
refused inf-lavapipe "sampled" --temp 1 -n 4
refused nan-lavapipe "logits" --logits rows.f32 -n 0
check_fails "nan: many steps ahead" 1 "are not finite" \
    "$EXEC" nan-tier1.plan --quiet --tokens "1 2 3" -n 300 --temp 0 --ignore-eos --print-ids --gpu-loop 64
finish
