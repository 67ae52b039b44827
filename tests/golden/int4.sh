# AWQ and GPTQ checkpoints against the same values in f32, on the device: small models quantized here.  By default one of each
# family of formats (unit.test_import_int4 has the values of all); the argument `whole` is the long form.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}

logits() { # NAME
    "$EXEC" "$1.plan" --quiet --tokens-file prompt -n 0 --logits "$1.f32"
}

# agrees KIND GROUP MODEL [OPTION...]
agrees() {
    local kind=$1 group=$2 model=$3 name=$1-g$2-$3 expected=$SRC/tests/golden/$3/expected.json
    shift 3
    "$TOOLS/expect" tokens "$expected" . >prompt
    check "$name: made" "$TOOLS/make_int4" "$kind" "$group" "$SRC/tests/golden/$model" "$name" "$name-values" &&
        check "$name: compiles" "$DOPPLERC" "$name" -o "$name.plan" --quiet --kv f32 --chunks 8 "$@" &&
        check "$name: values compile" "$DOPPLERC" "$name-values" -o "$name-values.plan" --quiet --kv f32 --chunks 8 &&
        check "$name: runs" logits "$name" && check "$name: values run" logits "$name-values" &&
        check "$name: logits" "$TOOLS/expect" logits "$expected" . "$name-values.f32" "$name.f32" 5e-4
    "$EXEC" "$name.plan" --info >info
    check "$name: the card names the type" grep -q '^weights .*int4_g' info
}

agrees gptq 64 llama
agrees awq 32 phi3
[ -z "$whole" ] || agrees awq 32 llama
[ -z "$whole" ] || agrees gptq_sym 128 llama_hd384_stream
[ -z "$whole" ] || agrees gptq_v2 -1 llama
finish
