# Diffusion models draw: the programs agree with the reference in PyTorch, the same seed gives the same bytes, options are checked.
# `whole`: all kinds of models, unfused, in f16, for GPUs, and --check.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
models=$SRC/tests/diffusion

# draws NAME MODEL BOUND OPTION...
draws() {
    local name=$1 model=$models/$2 bound=$3
    shift 3
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --size 24x16 "$@" &&
        check "$name: as the reference" "$TOOLS/drawn" "$name.plan" "$model" "$bound"
}

# agree PLAN: --check finds every kernel right.
agree() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}

if [ "$whole" = whole ]; then
    printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml
    for model in turbo sd15 sd21; do
        draws "$model" "$model" 2e-3 --target lavapipe --kv f32
        draws "$model-unfused" "$model" 2e-3 --target lavapipe --no-fuse
        draws "$model-f16" "$model" 2e-2 --target lavapipe --act f16
        draws "$model-tier1" "$model" 2e-3 --target tier1.yaml
        draws "$model-tier3" "$model" 2e-3 --target tier3
        check "$model: kernels agree" agree "$model.plan"
        check "$model-tier1: kernels agree" agree "$model-tier1.plan"
    done
    finish
    exit
fi

draws turbo turbo 2e-3 --target lavapipe

same() {
    "$EXEC" turbo.plan --draw "a red house" -o a.png --seed 3 --quiet && "$EXEC" turbo.plan --draw "a red house" -o b.png --seed 3 --quiet &&
        cmp a.png b.png && "$EXEC" turbo.plan --draw "a red house" -o c.png --seed 4 --quiet && ! cmp -s a.png c.png
}
check "the same seed draws the same picture" same
check "a picture carries its parameters" sh -c "grep -q 'Steps: 1, Sampler: euler, CFG scale: 1, Seed: 3, Size: 24x16' a.png"
check "steps, guidance, another sampler" "$EXEC" turbo.plan --draw "a house" --negative "a cat" --steps 2 --guidance 3 --sampler lcm -o d.png \
    --quiet
check_fails "an unknown sampler" 2 "sampler" "$EXEC" turbo.plan --draw x -o e.png --sampler none
check_fails "no file" 2 "-o" "$EXEC" turbo.plan --draw x
check_fails "a size between places" 1 "multiples of 4" "$DOPPLERC" "$models/turbo" -o e.plan --size 25x16
check_fails "a size of a model that writes" 2 "for models that draw" "$DOPPLERC" "$SRC/tests/golden/llama" -o e.plan --size 64x64
finish
