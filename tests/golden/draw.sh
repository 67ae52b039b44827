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

# With two text encoders, no text that says what not to draw is zeros, and an empty one is a text.
empty() {
    "$EXEC" sdxl.plan --draw "a red house" -o h.png --steps 2 --quiet &&
        "$EXEC" sdxl.plan --draw "a red house" -o i.png --steps 2 --negative "" --quiet && ! cmp -s h.png i.png
}

if [ "$whole" = whole ]; then
    printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml
    for model in turbo sd15 sd21 sdxl; do
        draws "$model" "$model" 2e-3 --target lavapipe --kv f32
        draws "$model-unfused" "$model" 2e-3 --target lavapipe --no-fuse
        draws "$model-f16" "$model" 2e-2 --target lavapipe --act f16
        draws "$model-q8_0" "$model" 2e-2 --target lavapipe --quant q8_0
        draws "$model-tier1" "$model" 2e-3 --target tier1.yaml
        draws "$model-tier3" "$model" 2e-3 --target tier3
        check "$model: kernels agree" agree "$model.plan"
        check "$model-tier1: kernels agree" agree "$model-tier1.plan"
    done
    check "two text encoders, with and without a text to avoid" empty
    finish
    exit
fi

draws sd15 sd15 2e-3 --target lavapipe

draw() { # FILE OPTION...
    "$EXEC" sd15.plan --draw "a red house" -o "$@" --quiet
}
same() {
    draw a.png --seed 3 --steps 2 && draw b.png --seed 3 --steps 2 && cmp a.png b.png &&
        draw c.png --seed 4 --steps 2 && ! cmp -s a.png c.png
}
check "the same seed draws the same picture" same
check "a picture carries its parameters" grep -q 'Steps: 2, Sampler: euler, CFG scale: 7.5, Seed: 3, Size: 24x16' a.png
check "steps, guidance, another sampler" draw d.png --negative "a cat" --steps 2 --guidance 3 --sampler lcm
# A drawing that begins with a picture: little changes little.
"$EXEC" sd15.plan --draw "a red house" -o e.png --init a.png --strength 0.3 --steps 10 --seed 3 >log 2>&1
check "a picture to begin with" grep -q '24 x 16 in 3 steps of euler' log
check "it says so" grep -q 'Seed: 3, Size: 24x16, Denoising strength: 0.3' e.png
check "another picture" sh -c '! cmp -s a.png e.png'
# A mask: what is opaque is kept to the bit, what is transparent is drawn, with nothing of the picture unless --strength says so.
"$TOOLS/masked" make mask.png 24 16 8 4 20 12
masked() { # OPTION...
    draw m.png --init a.png --seed 5 --steps 3 "$@" && "$TOOLS/masked" compare a.png m.png mask.png
}
repeats() {
    cp m.png n.png && draw m.png --init a.png --mask mask.png --seed 5 --steps 3 && cmp m.png n.png &&
        masked --mask mask.png --strength 0.4 && ! cmp -s m.png n.png && masked --mask mask.png --sampler lcm
}
check "a mask" masked --mask mask.png
check "it says so" grep -q 'Steps: 3, Sampler: euler, CFG scale: 7.5, Seed: 5, Size: 24x16, Denoising strength: 1' m.png
check "the same bytes again; less of it, another sampler" repeats
photos=$SRC/tests/pictures
check "masks as GIF and WebP, cut and resized with the picture" draw o.png --init "$photos/rgb.png" --mask "$photos/transparent.gif" --steps 1
"$TOOLS/masked" make opaque.png 24 16 0 0 0 0
: >empty
check_fails "a mask of another size" 1 "the mask has 23 x 17 pixels, and the picture 24 x 16" draw f.png --init a.png --mask "$photos/rgba.png"
check_fails "a mask without a transparent pixel" 1 "no pixel of the mask is transparent" draw f.png --init a.png --mask opaque.png
check_fails "a mask without alpha" 1 "no pixel of the mask is transparent" draw f.png --init a.png --mask b.png
check_fails "an empty mask" 1 "the picture is empty" draw f.png --init a.png --mask empty
check_fails "a mask of nothing" 2 "give --init FILE" draw f.png --mask mask.png
echo text >text
check_fails "what is no picture" 1 "no picture" draw f.png --init text
check_fails "no picture to begin with" 2 "give --init FILE" draw f.png --strength 0.5
"$EXEC" sd15.plan --draw "$(seq -s ' ' 80)" -o g.png --steps 1 >log 2>&1
check "77 tokens at most" grep -q 'note: the text is too long: its last [0-9]* tokens are left out' log
check_fails "an unknown sampler" 2 "sampler" draw f.png --sampler none
check_fails "no file" 2 "-o" "$EXEC" sd15.plan --draw x
check_fails "a size between places" 1 "multiples of 4" "$DOPPLERC" "$models/turbo" -o e.plan --size 25x16
check_fails "a size of a model that writes" 2 "for models that draw" "$DOPPLERC" "$SRC/tests/golden/llama" -o e.plan --size 64x64
"$DOPPLERC" "$models/sd15" --target lavapipe -o note.plan --size 24x16 >log 2>&1
check "a scheduler that another sampler stands for" grep -q "note: the model's scheduler is PNDMScheduler, for which euler draws" log
finish
