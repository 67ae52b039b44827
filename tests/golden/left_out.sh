# A plan that is made without one of the passes gives the same logits, or is refused with one line: passes change how fast a step
# is, and nothing else.  Each pass is left out of a family that it changes something in, and half of these plans run.  With the argument
# `whole` (the long form): every pass, times every golden model, for this device; and for targets whose kernels do not run here,
# whether they compile.
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/golden
passes=$(sed -n 's/^PASS([a-z_]*, "\([a-z-]*\)".*/\1/p' "$SRC/passes/passes.def")
# What a GPU gets, with the subgroups of a software device: there caches are split.
printf '%s\n' "base: nvidia-hopper" "name: hopper-subgroup8" "subgroup: 8" "max_workgroup: 256" "persistent: 0" "shared_bytes: 32768" \
    "caps: [f16_storage, f16_math, i8_storage, subgroup]" >hopper.yaml
printf 'base: lavapipe\nmax_alloc: 16384\n' >small.yaml
# No regions, no order, no memory, no kernels: nothing could be run.
needed="regions order place select"
left=0 # pairs whose plans were run

chunks=7

compile() { # MODEL OPTION...
    "$DOPPLERC" "$golden/$1" --quiet --kv f32 --chunks $chunks "${@:2}"
}

# changes PASS MODEL OPTION...: leaving the pass out forms other regions.  Status 2: it is refused, as ./why says.
changes() {
    compile "$2" --emit regions "${@:3}" >with || return 3
    compile "$2" --emit regions --skip "$1" "${@:3}" >without 2>why || return 2
    ! cmp -s with without
}

same() { # PASS MODEL OPTION...: runs
    "$TOOLS/expect" forced "$golden/$2/expected.json" . >forced &&
        compile "$2" -o left.plan --skip "$1" "${@:3}" || return
    if [ $chunks -gt 1 ]; then
        "$TOOLS/agree" left.plan forced 5e-4 "$golden/$2/logits.f32"
    else # a token at a time there is less to compare than that program wants
        "$TOOLS/agree" left.plan forced 5e-4 "$golden/$2/logits.f32" | tee agreed
        [ "$(grep -c '^ok: decode and reference: worst' agreed)" -eq 1 ] && ! grep -q '^MISS' agreed
    fi
}

# without PASS MODEL OPTION...: it changes something, and gives the same logits.
without() {
    local pass=$1 model=$2
    if changes "$@"; then
        left=$((left + 1))
        check "without $pass: $model" same "$@"
    else
        fail "without $pass: $model" "nothing is left out there any more: choose another family"
    fi
}

# compiles_without PASS MODEL: it changes something, and there is a plan, which runs in the long form.
compiles_without() {
    check "without $1: $2 changes" changes "$@" && check "without $1: $2 compiles" compile "$2" -o left.plan --skip "$1"
}

refused() { # PASS TEXT MODEL OPTION...
    check_fails "without $1: $3" "${status:-2}" "$2" compile "$3" -o left.plan --skip "$1" "${@:4}"
}

if [ "${1:-}" = whole ]; then
    for folder in "$golden"/*/; do
        model=$(basename "$folder")
        for pass in $passes; do
            status=0
            changes "$pass" "$model" || status=$?
            case "$status $needed" in
            0*) left=$((left + 1)) && check "without $pass: $model" same "$pass" "$model" ;;
            1*) ;; # the same regions, hence the same plan
            2*" $pass"* | 2*"$pass "*) grep -q "needs what pass \`$pass\` makes: do not skip it" why && pass "without $pass: $model is refused" ;;
            *) fail "without $pass: $model" "$(cat why)" ;;
            esac
            case " $needed " in
            *" $pass "*) ;;
            *)
                for target in nvidia-hopper tier3; do
                    check "without $pass: $model for $target" "$DOPPLERC" "$folder" --quiet --chunks 64 --target $target \
                        $([ $target = tier3 ] && echo --kv f32) --skip "$pass" --emit plan
                done
                ;;
            esac
        done
    done
    echo "# $left plans run, each without a pass that changes it"
    check "many pairs" [ "$left" -ge 400 ]
    finish
fi

for pass in regions order place select; do
    refused $pass "needs what pass \`$pass\` makes: do not skip it" llama
done
changes canon llama
check "without canon: builders leave nothing to it" [ $? = 1 ]
without split-norms qwen3
compiles_without fuse-prologue gpt_oss
without fuse-epilogue llama
compiles_without fuse-rows qwen3
without group-experts mixtral
without hoist-last-row llama
compiles_without hoist-row-scale llama
compiles_without meet-products cohere2
without merge-rows qwen3
without merge-siblings llama
compiles_without share-row gemma4_moe # the only one
compiles_without split-argmax llama
chunks=1
without split-kv llama --target hopper.yaml --ctx 500
chunks=7
# What only targets or kernel paths ask for cannot be left out there.
status=1 refused split-weights "more than one allocation of the target (16384)" mixtral --target small.yaml --ctx 64
check "with split-weights: mixtral" compile mixtral -o left.plan --target small.yaml --ctx 64
for model in gemma3 llama qwen3; do
    status=1 refused expand-weights "weights: dequant finds no matmul" $model --target lavapipe --kernel-path q4k-dequant-f32a
done
# Its kernels need matrix units.
for model in llama gemma3 mixtral; do
    check "without narrow: $model compiles" "$DOPPLERC" "$golden/$model" --quiet --chunks 64 --target nvidia-hopper --skip narrow --emit plan
done
finish
