# Kernels on matrix units, run without a device that has them: Mesa's lavapipe has the KHR form, as of version 26.2 (matrices of 8x8x8,
# subgroups of 8), which Debian sid's packages bring, where they can be had.  --check agrees on every kernel, and logits and the first
# generated ids are the reference's, as far as 16 bits allow.
#
# That driver runs the invocations of a subgroup in step and the subgroups of a workgroup in turn, and takes a barrier of a subgroup for
# one of the workgroup: where subgroups go different ways, their barriers would no longer meet.  So the test has templates of its own,
# in which a subgroup's barrier is one of memory only, which is enough for invocations in step.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_newer.sh"
if ! newer sid mesa mesa-vulkan-drivers libvulkan1 libjansson4 libyaml-0-2 libpcre2-8-0 libutf8proc3 libxxhash0 libedit2 libpng16-16 libwebp7 \
    libwebpdemux2 libstdc++6 >newer.log 2>&1; then
    skip "kernels on matrix units" "no lavapipe of Debian sid could be had"
    finish
fi
driver=$(compgen -G "$NEWER/usr/share/vulkan/icd.d/lvp_icd*.json" | head -n 1)
export VK_ICD_FILENAMES=$driver VK_DRIVER_FILES=$driver

has_units() { newer_run "$EXEC" --list-devices | tee devices | grep -q 'subgroup 8,.*matrix units .*8x8x8 f16->f32'; }
if ! has_units; then
    skip "kernels on matrix units" "this lavapipe has none: $(cat devices)"
    finish
fi

mkdir -p own/lib own/share/doppler
cp -a "$(dirname "$DOPPLERC")"/{dopplerc,libdoppler*.so*} own/lib/
cp -r "$SRC/kernels/glsl" own/share/doppler/
sed -i '1i #define subgroupBarrier() subgroupMemoryBarrierShared()' own/share/doppler/glsl/common.glsl

compile() { own/lib/dopplerc "$1" -o p.plan --quiet --target "$SRC/tests/drivers/units.yaml" --kv f16 "${@:2}"; }

# agrees KERNEL...: every kernel agrees, these among them
agrees() {
    newer_run "$EXEC" p.plan --check >checked || return
    tail -n 1 checked | grep -q '^\([1-9][0-9]*\) of \1 kernels agree' || return
    local kernel
    for kernel in "$@"; do grep "^ok *$kernel/" checked || return; done
}

answers() { # MODEL: the prompt, some ids, and the whole text, on matrix units
    "$TOOLS/expect" tokens "$1/expected.json" . >prompt && "$TOOLS/expect" forced "$1/expected.json" . >forced &&
        newer_run "$EXEC" p.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids -n 8 --logits logits >ids &&
        newer_run "$EXEC" p.plan --quiet --tokens-file forced -n 0 --logits forced.f32
}

units() { # MODEL KERNEL,KERNEL...
    local name=${1##*/} model=$SRC/tests/$1
    check "$name: compiles" compile "$model" --chunks 64 || return
    # shellcheck disable=SC2086 # names
    check "$name: kernels agree" agrees ${2//,/ }
    check "$name: answers" answers "$model" || return
    check "$name: logits" "$TOOLS/expect" logits "$model/expected.json" . "$model/logits.f32" logits 2e-2
    check "$name: first generated ids" "$TOOLS/expect" first "$model/expected.json" . ids 0.1 8
    check "$name: best id of every step" "$TOOLS/expect" argmax "$model/expected.json" . forced.f32 0.1
}

units golden/gemma2 attention_coop,matmul_coop      # scores with a cap
units golden/gemma3 attention_coop,matmul_coop      # windows
units golden/gpt_oss attention_coop,expert_coop     # sinks
units golden/mixtral attention_coop,expert_coop
units golden/deepseek_v3 attention_coop,expert_coop # values that are columns of keys
units golden/llama_hd384_stream attention_coop,matmul_coop,matmul_coop_few # a head that several subgroups share
finish
