# Adapters of models that draw (dopplerc --lora): the answers of the reference in PyTorch with the adapter merged, the same weights from
# every form of file, and what is refused.  The argument `whole` is the long form: every form of both kinds of models.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
models=$SRC/tests/diffusion adapter=$SRC/tests/diffusion/sd15_lora/pytorch_lora_weights.safetensors

compile() { # PLAN MODEL OPTION...
    "$DOPPLERC" "$2" -o "$1" --quiet --size 24x16 --target lavapipe "${@:3}"
}
check "compiles" compile a.plan "$models/sd15" --lora "$models/sd15_lora" &&
    check "as the reference" "$TOOLS/drawn" a.plan "$models/sd15_lora" 2e-3
check "the model alone" compile b.plan "$models/sd15" &&
    check "and it does something" sh -c '! "$@"' sh "$TOOLS/same_weights" a.plan b.plan

form() { python3 "$SRC/tests/tools/draw_adapter.py" "$@"; }
# same NAME MODEL OPTION...: the model compiled with the options has the weights of merged.plan.
same() {
    check "$1: compiles" compile b.plan "${@:2}" && check "$1: weights" "$TOOLS/same_weights" merged.plan b.plan
}
if ! command -v python3 >/dev/null; then
    skip "forms of files, and refusals" "there is no python3"
    finish
    exit
fi
for model in sd15 sdxl; do
    form make "$models/$model" a.safetensors && form merge "$models/$model" a.safetensors $model && compile merged.plan $model
    [ -z "$whole$([ $model = sd15 ] && echo first)" ] || same "$model, PEFT's names" "$models/$model" --lora a.safetensors
    for name in $([ -z "$whole" ] && [ $model = sdxl ] || echo kohya) $([ $model = sd15 ] || echo diffusers kohya-single); do
        form $name a.safetensors $name.safetensors
        same "$model, names of $name" "$models/$model" --lora $name.safetensors
    done
done
# A model in one file; PEFT's own directory, for the U-Net alone.
form make "$models/sd15" a.safetensors && form kohya a.safetensors kohya.safetensors &&
    compile merged.plan "$models/sd15" --lora a.safetensors
cp -r "$models/sd15" single && chmod -R u+w single && rm single/*/*.safetensors &&
    "$TOOLS/single_file" "$models/sd15" single/model.safetensors
same "a model in one file" single/model.safetensors --lora kohya.safetensors
mkdir peft && form peft "$adapter" peft/adapter_model.safetensors &&
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 3}' >peft/adapter_config.json
form only-unet "$adapter" unet.safetensors
check "the U-Net's" compile merged.plan "$models/sd15" --lora unet.safetensors
same "PEFT's directory" "$models/sd15" --lora peft

# What changes is f32, with --quant what that says, and convolutions then have 16 bits.
stored() { # OPTION...: the types of the weights, in log
    "$DOPPLERC" "$models/sd15" -o b.plan --size 24x16 --target lavapipe --lora "$adapter" "$@" >log 2>&1
}
check "compiles" stored && check "in f32" grep -q 'f16 -> f32 (26 tensors' log
check "compiles for f16" stored --quant f16 && check "in f16" grep -q '; weights f16 ([^,]*)$' log
check "compiles for q8_0" stored --quant q8_0 && check "in q8_0 and f16" sh -c 'grep -q "f16 -> q8_0" log && ! grep -q "f32" log'

# refused NAME TEXT SED: the adapter with another text in its header.
refused() {
    LC_ALL=C sed "$3" kohya.safetensors >bad.safetensors
    check_fails "$1" 1 "$2" "$DOPPLERC" "$models/sd15" -o b.plan --lora bad.safetensors --size 24x16
}
refused "a module that is not there" "lora_unet_mid_block_resnets_1_conv9: this model has no matrix of that name" \
    's/mid_block_resnets_1_conv2/mid_block_resnets_1_conv9/g'
refused "another kind" "is no part of a low-rank adapter that is read here" 's/conv_in.lora_down/conv_in.hada_w1_a/'
refused "half of a pair" "has one matrix of the two" 's/lora_unet_conv_in.lora_up/lora_unet_conv_ou.lora_up/'
refused "another shape" "the adapter is of another model or rank" 's/\[2, 4, 3, 3\]/[3, 4, 2, 3]/'
form two-alphas a.safetensors two.safetensors && form no-alpha a.safetensors none.safetensors
for why in "two one value is expected" "none is no sensible number"; do
    check_fails "alphas: ${why#* }" 1 "${why#* }" "$DOPPLERC" "$models/sd15" -o b.plan --size 24x16 \
        --lora "${why%% *}.safetensors"
done
check_fails "another model's" 1 "attentions.0.proj_in: this model has no matrix of that name" \
    "$DOPPLERC" "$models/sdxl" -o b.plan --lora a.safetensors --size 24x16
check_fails "a model that writes needs more than the file" 1 "adapter_config.json is missing beside this file" \
    "$DOPPLERC" "$SRC/tests/golden/llama" -o b.plan --lora a.safetensors
head -c 3000 a.safetensors >cut.safetensors
check_fails "cut off" 1 "cut.safetensors" "$DOPPLERC" "$models/sd15" -o b.plan --lora cut.safetensors --size 24x16
finish
