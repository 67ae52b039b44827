# Diffusion models in one file of safetensors: the plan of the directory with the same weights, and what files may lack.
. "$(dirname "$0")/../lib.sh"
models=$SRC/tests/diffusion
export DOPPLERC=$TOOLS/as_written/dopplerc LD_LIBRARY_PATH=$TOOLS/as_written

# single MODEL [OPTION...]: the folder MODEL with the model in one file, and the configurations beside it.
single() {
    cp -r "$models/$1" "$1" && chmod -R u+w "$1" && rm "$1"/*/*.safetensors &&
        "$TOOLS/single_file" "$models/$1" "$1/model.safetensors" "${@:2}"
}
same_plan() { # MODEL
    "$DOPPLERC" "$models/$1" -o directory.plan --target lavapipe --size 24x16 --quiet &&
        "$DOPPLERC" "$1/model.safetensors" -o "$1.plan" --target lavapipe --size 24x16 --quiet && cmp directory.plan "$1.plan"
}
for model in sd15 sd21; do
    option=$([ "$model" = sd15 ] || echo open-clip)
    check "$model in a file" single "$model" $option
    check "$model: the plan of its directory" same_plan "$model"
done
# What is beside the file counts for the plan that doppler-exec keeps, as everything in a directory does.
kept() { # MODEL
    "$EXEC" "$1" --info --cache-dir "$PWD/cache" --size 24x16 --target lavapipe >>log 2>&1
}
kept sd21/model.safetensors
sed -i 's/"v_prediction"/"epsilon"/' sd21/scheduler/scheduler_config.json
kept sd21/model.safetensors
kept "$models/sd21"
"$EXEC" --cache-list --cache-dir "$PWD/cache" >list
check "three plans" [ "$(grep -c 'size 24x16' list)" -eq 3 ]

refuses() { # NAME TEXT
    check_fails "$1" 1 "$2" "$DOPPLERC" sd15/model.safetensors -o none.plan --size 24x16
}
# without TENSORS...: the file again, without the tensors whose names begin so, which are renamed to what nothing reads.
without() {
    "$TOOLS/single_file" "$models/sd15" sd15/model.safetensors && LC_ALL=C sed -i "s/\"$1/\"$2/g" sd15/model.safetensors
}
without first_stage_model other_stage_model
refuses "no autoencoder" "no autoencoder (first_stage_model)"
without cond_stage_model cond_no_encoder_
refuses "no text encoder" "no text encoder"
without model.diffusion_model.input_blocks.0.0 model.diffusion_model.input_blocks.0.9
refuses "no first convolution" "no U-Net of a known form"
without model.diffusion_model.input_blocks.2.0.op model.diffusion_model.input_blocks.2.0.no
check_fails "a level that is not there" 1 "the model has no tensor unet" "$DOPPLERC" sd15/model.safetensors -o none.plan --size 24x16
without model.diffusion_model.out.2.weight model.diffusion_model.out.0.weight
refuses "a name twice" "a name comes twice"
"$TOOLS/single_file" "$models/sd15" sd15/model.safetensors
mv sd15/tokenizer away
refuses "no tokenizer" "no tokenizer: put the folder tokenizer"
cp away/* sd15
check "a tokenizer beside the file" same_plan sd15
# Facts by shapes: with groups of 32 channels, which these small models have not.
rm sd15/unet/config.json
refuses "channels of another model" "16 channels do not make 32 groups"
finish
