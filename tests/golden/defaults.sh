# What config.json does not say: the graph is that of a file which states the default of the family's configuration class.
. "$(dirname "$0")/../lib.sh"

# graph MODEL [SED]: of the golden model with its config.json edited
graph() {
    rm -rf model && mkdir model && ln -s "$SRC/tests/golden/$1/model.safetensors" model &&
        sed -E "${2:-}" "$SRC/tests/golden/$1/config.json" >model/config.json &&
        "$DOPPLERC" model --emit ir --stop-after canon --target lavapipe --quiet
}

# same MODEL KEY VALUE
same() {
    grep -q "^ *\"$2\": [^{[]*,\$" "$SRC/tests/golden/$1/config.json" && graph "$1" "/^ *\"$2\":/d" >without &&
        graph "$1" "s/^( *\"$2\": ).*,\$/\\1$3,/" >stated && cmp without stated
}

while read -r model key value; do
    check "$model without $key" same "$model" "$key" "$value"
done <<'END'
exaone_moe routed_scaling_factor 2.5
gemma3n final_logit_softcapping 30.0
glm4_moe_lite routed_scaling_factor 1.8
hy_v3 router_scaling_factor 2.826
kimi_linear q_lora_rank null
kimi_linear routed_scaling_factor 2.446
mimo_v2_flash attention_value_scale 0.707
END
finish
