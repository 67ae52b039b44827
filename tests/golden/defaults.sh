# What config.json does not say: the graph is that of a file which states the default of the family's configuration class.
. "$(dirname "$0")/../lib.sh"

# graph MODEL SED: of a model of the tests with its config.json edited
graph() {
    rm -rf model && mkdir model && ln -s "$1"/{model.safetensors,*.json} model && rm model/config.json &&
        sed -E "$2" "$1/config.json" >model/config.json &&
        "$DOPPLERC" model --emit ir --stop-after canon --target lavapipe --quiet
}

# same MODEL KEY VALUE
same() {
    local field="\"$2\": [^{[,]*,?"
    grep -qE "$field" "$1/config.json" && graph "$1" "s/$field//" >without &&
        graph "$1" "s/$field/\"$2\": $3,/" >stated && cmp without stated
}

while read -r model key value; do
    folder=$SRC/tests/$model
    [[ $model != golden/vision/* ]] || folder=$SHARED/$model
    if [ -e "$folder/config.json" ]; then
        check "$model without $key" same "$folder" "$key" "$value"
    else
        skip "$model without $key" "../shared/$model is not there"
    fi
done <<'END'
golden/exaone_moe routed_scaling_factor 2.5
golden/gemma3n final_logit_softcapping 30.0
golden/glm4_moe_lite routed_scaling_factor 1.8
golden/hy_v3 router_scaling_factor 2.826
golden/kimi_linear q_lora_rank null
golden/kimi_linear routed_scaling_factor 2.446
golden/mimo_v2_flash attention_value_scale 0.707
golden/vision/internvl downsample_ratio 0.5
golden/vision/llava vision_feature_layer -2
golden/vision/mistral3 spatial_merge_size 2
vision/lfm2_vl downsample_factor 2
END
finish
