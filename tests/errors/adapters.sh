# Adapters that cannot be used: one line each, and nothing written.
. "$(dirname "$0")/../lib.sh"
model=$SRC/tests/adapters/lora

refused() { # NAME TEXT ADAPTER [STATUS]
    check_fails "$1" "${4:-1}" "$2" "$DOPPLERC" "$model" -o a.plan --quiet --target lavapipe --lora "$3"
    [ ! -e a.plan ] || fail "$1: a plan was written"
    rm -f a.plan
}

# with NAME SED: the golden adapter with its configuration edited
with() {
    rm -rf "$1" && cp -r "$model/adapter" "$1" && chmod -R u+w "$1" && sed -i "$2" "$1/adapter_config.json"
}

refused "no file" "absent: error: cannot open" absent
refused "a folder without an adapter" "adapter_config.json is missing" .
mkdir bin && cp "$model/adapter/adapter_config.json" bin && touch bin/adapter_model.bin
refused "a pickle" "save it as safetensors" bin
with empty "s/x/x/" && : >empty/adapter_model.safetensors
refused "an empty file" "not a safetensors file" empty
with short "s/x/x/" && head -c 4000 "$model/adapter/adapter_model.safetensors" >short/adapter_model.safetensors
refused "a file cut short" "truncated" short
refused "text" "not an adapter" "$SRC/LICENSE"
refused "a scale that is no number" "expected FILE or FILE:SCALE" "$model/adapter:x" 2
with type 's/"LORA"/"IA3"/'
refused "another kind" "adapters of type IA3 are not supported" type
with rank 's/"r": 4/"r": 5/'
refused "another rank" "the rank is 5, but tensor" rank
with bias 's/"bias": "none"/"bias": "none", "lora_bias": true/'
refused "biases" "lora_bias is not supported" bias
with dora 's/"use_rslora": false/"use_dora": true/'
refused "DoRA without magnitudes" "has no lora_magnitude_vector" dora
with alpha 's/"lora_alpha": 12/"lora_alpha": 1e30/'
refused "an absurd scale" "lora_alpha is" alpha
with pattern 's/"use_rslora": false/"alpha_pattern": {"q_proj": "x"}/'
refused "a pattern without number" "has no sensible number" pattern
with patterns 's/"use_rslora": false/"rank_pattern": [1]/'
refused "patterns that are no object" "must be objects" patterns
with broken 's/"use_rslora": false/"alpha_pattern": {"(q_proj": 3}/'
refused "a pattern that is none" 'error: "(q_proj" is no pattern' broken
with slow 's/"use_rslora": false/"alpha_pattern": {"([a-z._0-9]+)+[!?]": 3}/'
refused "a pattern that takes forever" "is no pattern that is read here" slow
with pissa 's/"use_rslora": false/"init_lora_weights": "pissa_niter_16"/'
refused "an adapter for what PiSSA leaves of the weights" "init_lora_weights is pissa_niter_16: the adapter is for other weights" pissa
with replicated 's/"use_rslora": false/"layer_replication": [[0, 2], [1, 2]]/'
refused "layers that come twice" "layer_replication is not supported" replicated
with activated 's/"use_rslora": false/"alora_invocation_tokens": [5, 6]/'
refused "an adapter for what follows some tokens" "alora_invocation_tokens is not supported" activated
"$TOOLS/adapt" "$SRC/tests/golden/gemma3_hd256" other 4 1 >/dev/null
refused "an adapter of another model" "the adapter is of another model or rank" other
"$TOOLS/adapt" "$SRC/tests/golden/gpt2" far 4 1 >/dev/null
refused "an adapter of another family" "this model has no matrix of that name" far
with nan "s/x/x/"
check "a value is made NaN" "$TOOLS/poison" nan/adapter_model.safetensors base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight 7 nan
refused "a value that is NaN" "v_proj.lora_B.weight holds an infinity or NaN" nan
check_fails "the output is an input" 2 "this file is an input" "$DOPPLERC" "$model" -o nan/adapter_model.safetensors --quiet --lora nan
finish
