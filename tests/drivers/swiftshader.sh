# Golden models on SwiftShader, a second implementation of Vulkan beside lavapipe: subgroups of 4, workgroups of 256, no values of 8, 16
# or 64 bits.  The generated ids and the logits are the reference's, and --check agrees on every kernel.  Compiled as for any processor; one
# model by default, all of them with the argument `whole` (the long form).  lib_golden.sh runs each in less time as on a GPU.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/drivers/lib_swiftshader.sh"
use_swiftshader || { skip "golden models on SwiftShader" "$no_swiftshader"; finish; }

here() { "$EXEC" --list-devices | grep -q 'SwiftShader.*subgroup 4'; }

generates() { # MODEL: ids and logits
    "$TOOLS/expect" tokens "$1/expected.json" . >prompt &&
        "$EXEC" p.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids -n "$("$TOOLS/expect" count "$1/expected.json" .)" \
            --logits logits >ids
}

kernels_agree() { "$EXEC" p.plan --check >checked && tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'; }

on_swiftshader() { # MODEL
    local name=${1##*/}
    check "$name: compiles" "$DOPPLERC" "$1" -o p.plan --quiet --kv f32 --chunks 8 || return
    check "$name: generates" generates "$1" &&
        check "$name: generated ids" "$TOOLS/expect" ids "$1/expected.json" . ids 0.01 &&
        check "$name: logits" "$TOOLS/expect" logits "$1/expected.json" . "$1/logits.f32" logits 5e-4
    check "$name: kernels agree" kernels_agree
}

# Models that do not write text, or not from text: what their own tests compare on lavapipe.
encodes() { # MODEL
    local name=${1##*/}
    check "$name: compiles" "$DOPPLERC" "$1" -o p.plan --quiet --kv f32 --chunks 128 || return
    check "$name: as expected" "$TOOLS/encoded" p.plan "$1" 5e-5
    check "$name: kernels agree" kernels_agree
}
draws() { # MODEL
    local name=${1##*/}
    check "$name: compiles" "$DOPPLERC" "$1" -o p.plan --quiet --size 24x16 || return
    check "$name: as the reference" "$TOOLS/drawn" p.plan "$1" 2e-3
    check "$name: kernels agree" kernels_agree
}
sees() { # MODEL
    local name=${1##*/}
    check "$name: compiles" "$DOPPLERC" "$1" -o p.plan --quiet --kv f32 --chunks 8 || return
    check "$name: kernels agree" kernels_agree
}
hears() { # MODEL
    sed 's/^{/{"greedy": [0], "greedy_margin": [0], /' "$1/expected.json" >expected.json
    "$TOOLS/expect" tokens expected.json . >prompt
    check "${1##*/}: compiles" "$DOPPLERC" "$1" -o p.plan --quiet --kv f32 --chunks 16 || return
    check "${1##*/}: hears" "$EXEC" p.plan --mel "$1/mel.f32" --tokens-file prompt --logits logits -n 0 --quiet
    check "${1##*/}: logits" "$TOOLS/expect" logits expected.json . "$1/logits.f32" logits 5e-4
    check "${1##*/}: kernels agree" kernels_agree
}

check "the device" here || finish
if [ "${1:-}" = whole ]; then
    for model in "$SRC"/tests/golden/*/expected.json; do
        on_swiftshader "${model%/*}"
    done
    for model in "$SRC"/tests/encoders/*/; do encodes "${model%/}"; done
    for model in "$SRC"/tests/diffusion/*/; do draws "${model%/}"; done
    for model in gemma3_vl qwen3_vl; do sees "$SRC/tests/vision/$model"; done # with a model of text
    hears "$SRC/tests/speech/whisper"
    # Integers, and weights in blocks.
    for type in q8_0 q4_k; do
        check "$type: compiles" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o p.plan --quiet --ctx 64 --chunks 8 --quant $type &&
            check "$type: kernels agree" kernels_agree
    done
else
    on_swiftshader "$SRC/tests/golden/mixtral"
fi
finish
