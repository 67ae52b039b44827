# Decoding, prefill and scoring are different kernels: the same tokens give the same logits with all of them, for every
# target (with subgroups as wide as the software device's), and for a kernel path.  With the argument `whole` (the long form) for paths of
# every kind, with chunks of 3 beside those of 16 for every target, and caches of 16 bits for one more.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
exact=5e-4 # f32 caches and activations
f16=2e-2   # something is stored in 16 bits

printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml
printf '%s\n' "base: nvidia-hopper" "name: hopper-subgroup8" "subgroup: 8" "max_workgroup: 256" "persistent: 0" "shared_bytes: 32768" \
    "caps: [f16_storage, f16_math, i8_storage, subgroup]" >hopper.yaml

# agrees NAME MODEL BOUND CHUNKS OPTION...: chunks of 16 leave a shorter one at the end, and chunks of 3 have other tiles.
agrees() {
    local name=$1 golden=$SRC/tests/golden/$2 bound=$3 chunks=$4
    shift 4
    "$TOOLS/expect" forced "$golden/expected.json" . >tokens
    check "$name: compiles" "$DOPPLERC" "$golden" -o "$name.plan" --quiet --chunks "$chunks" "$@" || return
    case " $* " in
    *q4k*) check "$name: agree" "$TOOLS/agree" "$name.plan" tokens "$bound" ;; # not the reference's weights
    *) check "$name: agree" "$TOOLS/agree" "$name.plan" tokens "$bound" "$golden/logits.f32" ;;
    esac
    rm -f "$name.plan"
}

[ -n "$whole" ] && few=3,16 more=3,16 || few=3 more=16
# golden.check has kernels of these two and of the last one, and check.targets compares the second with the reference.
[ -z "$whole" ] || agrees tier1 qwen3 $exact $few --target tier1.yaml --kv f32
[ -z "$whole" ] || agrees tier2 llama $exact $few --target tier2 --kv f32
agrees tier3 qwen3 $exact $more --target tier3
agrees lavapipe gemma3 $exact $more --target lavapipe --kv f32
[ -z "$whole" ] || agrees hopper gemma3 $exact $few --target hopper.yaml --kv f32
[ -z "$whole" ] || agrees hopper-default gemma2 $f16 16 --target hopper.yaml # golden.check has kernels of that kind
for path in gemma3-q4k-dequant-f32a ${whole:+f32-unfused-f32a gemma3-f16-fused-f16a f16-separate-norms-f32a gemma3-q4k-fused-f32a}; do
    bound=$f16
    [ $path != f32-unfused-f32a ] || bound=$exact
    agrees $path gemma3 $bound 16 --target lavapipe --kernel-path $path
done

# What a step costs is counted by the tokens that it has: one of 100 in a schedule for 512 takes less time than two in one for 64.
steps() { # TOKENS STEPS
    "$EXEC" steps.plan --tokens "$(seq -s ' ' "$1")" -n 1 --profile steps.json >steps.txt &&
        [ "$(grep -o '^prefill[0-9]*: [0-9]* replay' steps.txt)" = "$2" ]
}
if check "steps: compiles" "$DOPPLERC" "$SRC/tests/golden/gemma3" -o steps.plan --quiet --chunks 64,512 --ctx 600 --target lavapipe; then
    check "steps: 40 tokens" steps 40 "prefill64: 1 replay"
    check "steps: 100 tokens" steps 100 "prefill512: 1 replay"
fi
finish
