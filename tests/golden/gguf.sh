# A GGUF file of a hybrid model on a device: value heads that take key heads in turn, as only GGUF files have them.  The
# interpreter reads every family's file (unit.test_import_gguf).
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/golden/qwen3_5

logits() { # PLAN
    "$EXEC" "$1" --quiet --tokens-file prompt -n 0 --logits got.f32
}

"$TOOLS/expect" tokens "$golden/expected.json" . >prompt
check "converts" "$TOOLS/hf_to_gguf" "$golden" model.gguf &&
    check "compiles" "$DOPPLERC" model.gguf -o model.plan --quiet --kv f32 &&
    check "runs" logits model.plan &&
    check "logits" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" got.f32 5e-4
finish
