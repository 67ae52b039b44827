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
golden/solar_open first_k_dense_replace 1
golden/vision/internvl downsample_ratio 0.5
golden/vision/llava vision_feature_layer -2
golden/vision/mistral3 spatial_merge_size 2
vision/lfm2_vl downsample_factor 2
END

# LFM2: a base outside counts like one inside; DBRX: the weights of chosen experts are shares of all where the file says null.
base() {
    graph "$1" 's/x/x/' >graph && "$DOPPLERC" model -o as_it_is --target lavapipe --quiet &&
        graph "$1" 's/^  "rope_theta": .*//; s/"rope_parameters": \{/"rope_theta": 77.0, &/' >graph &&
        "$DOPPLERC" model -o outside --target lavapipe --quiet &&
        graph "$1" 's/^(  "rope_theta": ).*/\177.0,/' >graph && "$DOPPLERC" model -o inside --target lavapipe --quiet &&
        cmp outside inside && ! cmp -s outside as_it_is
}
check "lfm2: rope_theta" base "$SRC/tests/golden/lfm2"
shares() { graph "$1" "s/(\"moe_normalize_expert_weights\": )[^,]*/\1$2/" | grep -q 'softmax %L0.router '; }
check "dbrx: shares of all experts" shares "$SRC/tests/golden/dbrx" null
check "dbrx: shares of the chosen" eval '! shares "$SRC/tests/golden/dbrx" 1.0'

# Qwen3.5's mixer: its gate by the name of its activation.
gate() { graph "$SRC/tests/golden/qwen3_next" "s/\"model_type\": /\"output_gate_type\": \"$1\", &/" | grep -q "zg[: ].*= $2 "; }
check "qwen3_next: a gate by swish" gate swish silu
check "qwen3_next: a gate by sigmoid" gate sigmoid sigmoid
finish
