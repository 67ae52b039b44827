# A GGUF file of a hybrid model on a device: value heads that take key heads in turn, as only GGUF files have them.  The
# interpreter reads every family's file (unit.test_import_gguf).  And what tests/bench/make_gguf.c writes is read.
#
# usage: gguf.sh [whole]: whole: the file of every model that llama.cpp converts, on a device
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

reads() { # SHAPE TYPE
    "$TOOLS/make_gguf" "$1" "$2" tiny.gguf && "$DOPPLERC" tiny.gguf --emit ir >tiny.ir && grep -q 'argmax' tiny.ir
}
for shape in "qwen3moe q4_0" "mixtral q8_0" "gpt-oss mxfp4" "qwen3.5 f16" "mamba2 f16" "lfm2 f16" \
    "qwen3.5-moe q8_0" "nemotron-h f16" "nemotron-h-moe q4_0" "lfm2-moe q4_0"; do
    # shellcheck disable=SC2086
    check "make_gguf $shape" reads tiny-$shape
done

# Weights in blocks stay in the file, and are repacked when they are loaded: the device gets the bytes of a whole plan.
once() { # SHAPE TYPE: leaves most of the file in its place
    "$TOOLS/make_gguf" "tiny-$1" "$2" once.gguf || return
    for where in embed model; do
        "$DOPPLERC" once.gguf -o $where.plan --weights $where --target tier1 --ctx 64 --quiet || return
    done
    [ "$("$TOOLS/same_weights" embed.plan model.plan)" -gt $(($(stat -c %s once.gguf) / 2)) ]
}
check "experts of mxfp4 are on the disk once" once gpt-oss mxfp4
check "codebooks, too" once qwen3moe iq2_s

# Models that llama.cpp's converter does not know; and one whose width has a root that checkpoints round and its files do not.
none=" gemma4_moe bitnet diffllama doge falcon_h1_norm flex_olmo gptj helium ministral olmo_hybrid opt vaultgemma zamba2
      falcon_rw opt_350m zamba2_adapted internlm2 "
whole() { # FOLDER
    "$TOOLS/hf_to_gguf" "$1" whole.gguf && "$DOPPLERC" whole.gguf -o whole.plan --quiet --kv f32 &&
        "$TOOLS/expect" tokens "$1/expected.json" . >prompt &&
        "$EXEC" whole.plan --quiet --tokens-file prompt -n 0 --logits got.f32 &&
        "$TOOLS/expect" logits "$1/expected.json" . "$1/logits.f32" got.f32 5e-4
}
for folder in "$SRC"/tests/golden/*/; do
    name=$(basename "$folder")
    case "${1:-}$none" in
    whole*" $name "*) ;;
    whole*) check "the GGUF file of $name" whole "${folder%/}" ;;
    esac
done
finish
