# Damaged and hostile files of models that draw: one line each, with its cause.
. "$(dirname "$0")/../lib.sh"
export DOPPLERC=$TOOLS/as_written/dopplerc
model=$SRC/tests/diffusion/sdxl
cp -r "$model" copy && chmod -R u+w copy

refused() { # NAME TEXT
    "$DOPPLERC" copy -o none.plan --target lavapipe --size 24x16 --quiet >out 2>log
    check "$1: refused" [ $? -eq 1 ]
    check "$1: one line" [ "$(grep -vc ': note: ' log)" -eq 1 ]
    check "$1: its cause" grep -qF "$2" log
}
while IFS='|' read -r file from to text; do
    sed -i "s/\"$from\": [^,]*/\"$from\": $to/" "copy/$file"
    refused "$file: $from $to" "$text"
    cp "$model/$file" "copy/$file"
done <<'END'
unet/config.json|in_channels|0|in_channels
unet/config.json|norm_num_groups|7|16 channels do not make 7 groups
unet/config.json|cross_attention_dim|48|the U-Net reads rows of 48 values, and the text encoder gives 80
unet/config.json|addition_time_embed_dim|6|projection_class_embeddings_input_dim is 72
unet/config.json|addition_time_embed_dim|1e9|addition_time_embed_dim
unet/config.json|addition_embed_type|"image"|addition_embed_type "image" is not supported
unet/config.json|layers_per_block|4|the model has no tensor unet
vae/config.json|latent_channels|8|latent_channels is 8
vae/config.json|scaling_factor|0|scaling_factor
vae/config.json|layers_per_block|-1|layers_per_block
scheduler/scheduler_config.json|num_train_timesteps|1|num_train_timesteps
scheduler/scheduler_config.json|beta_start|-1|beta_start
scheduler/scheduler_config.json|beta_end|"x"|beta_end
scheduler/scheduler_config.json|beta_schedule|"squaredcos_cap_v2"|beta_schedule "squaredcos_cap_v2" is not supported
text_encoder_2/config.json|hidden_size|64|heads
text_encoder_2/config.json|num_attention_heads|5|heads
text_encoder_2/config.json|hidden_act|"relu"|hidden_act "relu" is not supported
text_encoder_2/config.json|max_position_embeddings|64|texts of 64 tokens, of 77
text_encoder_2/config.json|projection_dim|32|projection_class_embeddings_input_dim
text_encoder_2/config.json|num_hidden_layers|9|the model has no tensor text_2
text_encoder/config.json|num_hidden_layers|1|the first of two text encoders has 2 or more
END
for file in unet/diffusion_pytorch_model.safetensors vae/diffusion_pytorch_model.safetensors text_encoder_2/model.safetensors; do
    head -c 5000 "$model/$file" >"copy/$file"
    refused "$file cut off" "$file"
    cp "$model/$file" "copy/$file"
done
rm copy/tokenizer_2/vocab.json
refused "no second tokenizer" "tokenizer_2"
finish
