# Adapters merged into weights (dopplerc --lora): the logits of an independent implementation, fused and not, and those of the same
# adapter as a single file, scaled, merged twice, on a quantized model.
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/adapters/lora
"$TOOLS/expect" tokens "$golden/expected.json" . >prompt

# logits NAME PLAN: of every token of the prompt
logits() {
    "$EXEC" "$2" --quiet --tokens-file prompt -n 0 --logits "$1"
}

# near NAME REFERENCE BOUND OPTION...: the golden model, compiled with the options, gives the reference's logits.
near() {
    local name=$1 reference=$2 bound=$3
    shift 3
    check "$name: compiles" "$DOPPLERC" "$golden" -o a.plan --quiet --target lavapipe --chunks 7 "$@" || return
    check "$name: runs" logits a.f32 a.plan &&
        check "$name: logits" "$TOOLS/expect" logits "$golden/expected.json" . "$reference" a.f32 "$bound"
}

near "the model alone" "$golden/logits.f32" 5e-4 --kv f32
near "merged" "$golden/logits_adapter.f32" 5e-4 --kv f32 --lora "$golden/adapter"
cp a.f32 merged.f32
near "merged, unfused" "$golden/logits_adapter.f32" 5e-4 --kv f32 --no-fuse --lora "$golden/adapter"
near "merged, its file" merged.f32 5e-4 --kv f32 --lora "$golden/adapter/adapter_model.safetensors"
near "merged in two halves" "$golden/logits_adapter.f32" 5e-4 --kv f32 --lora "$golden/adapter:0.5" --lora "$golden/adapter:0.5"
near "merged with nothing" "$golden/logits.f32" 5e-4 --kv f32 --lora "$golden/adapter:0"
near "merged in f16" "$golden/logits_adapter.f32" 2e-2 --lora "$golden/adapter" --quant f16
finish
