# Models that dopplerc cannot read: one line that says what and where, exit status 1, and no plan left behind.  Every
# message of the importers has its unit test (tests/unit/test_import*.c); this is what a user sees of them.
. "$(dirname "$0")/../lib.sh"

# fails NAME TEXT MODEL
fails() {
    check_fails "$1" 1 "$2" "$DOPPLERC" "$3" -o "$1.plan" && check "$1: nothing is left" no_plan "$1.plan"
}

no_plan() {
    [ -z "$(find . -maxdepth 1 -name "$1*")" ]
}

# copy NAME [MODEL]: a golden model to damage
copy() {
    rm -rf "$1"
    cp -r "$SRC/tests/golden/${2:-llama}" "$1"
    chmod -R u+w "$1"
}

# config NAME EXPRESSION [MODEL]: a model whose config.json went through sed
config() {
    copy "$1" "${3:-llama}"
    sed -i "$2" "$1/config.json"
}

fails no-such-model "nowhere: error: cannot open: No such file or directory" nowhere
mkdir -p empty
fails empty-directory "empty: error: not a model: no config.json and no manifest.json here" empty
echo hello >text
fails not-a-model "text: error: not a model: expected a GGUF file or a directory with config.json" text

config zero-heads 's/"num_attention_heads": 4/"num_attention_heads": 0/'
fails zero-heads "zero-heads/config.json: error: num_attention_heads is 0, expected 1 to 4096" zero-heads
config many-layers 's/"num_hidden_layers": 2/"num_hidden_layers": 1000000000/'
fails many-layers "num_hidden_layers is 1000000000, expected 1 to 1024" many-layers
config negative 's/"hidden_size": 64/"hidden_size": -64/'
fails negative "hidden_size is -64, expected 1 to 1048576" negative
config indivisible 's/"hidden_size": 64/"hidden_size": 66/; /"head_dim"/d'
fails indivisible "hidden_size 66 is not divisible by num_attention_heads 4" indivisible
config unknown 's/LlamaForCausalLM/RwkvForCausalLM/'
fails unknown 'architecture "RwkvForCausalLM" is not supported; dopplerc --list-models has the names that are' unknown
config unknown-type 's/"llama"/"rwkv"/; s/"LlamaForCausalLM"//; s/"architectures": \[/"others": [/'
fails unknown-type 'model_type "rwkv" is not supported; dopplerc --list-models has the names that are' unknown-type
config derived-type 's/"model_type": "llama"/"model_type": "rwkv"/'
fails derived-type 'model_type "rwkv" is not supported; dopplerc --list-models has the names that are' derived-type
config two-families 's/"model_type": "llama"/"model_type": "qwen3"/'
fails two-families 'architectures names LlamaForCausalLM, which is llama, but model_type is "qwen3": one of the two is' two-families
config two-bases 's/"vocab_size"/"rope_theta": 500000.0, "vocab_size"/'
fails two-bases "rope_theta is 500000, but rope_parameters.rope_theta is 10000" two-bases
config one-layer 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
fails one-layer "tensor model.layers.1.input_layernorm.weight is of layer 1, but num_hidden_layers is 1" one-layer
copy no-bias
cp -r "$SRC/tests/golden/llama_attnbias_linear/." no-bias
sed -i 's/"attention_bias": true/"attention_bias": false/' no-bias/config.json
fails no-bias "k_proj.bias: config.json says nothing of it (and of 7 tensors more), so leaving it out" no-bias
config tied 's/"tie_word_embeddings": false/"tie_word_embeddings": true/'
notes() { # MODEL TEXT: compiles, and says so
    "$DOPPLERC" "$1" --target lavapipe -o "$1.plan" 2>"$1.err" && grep -qxF "dopplerc: $1: note: $2" "$1.err"
}
check "tied: says what it left out" notes tied \
    "tensors not used: 1 output matrix: the embedding is used for it, as the configuration says"

# Experts, groups of them, and what latent attention is made of.
config more-active 's/"num_experts_per_tok": 2/"num_experts_per_tok": 5/' mixtral
fails more-active "more-active/config.json: error: layer 0: 5 active experts of 4" more-active
config no-groups 's/"n_group": 2/"n_group": 0/' deepseek_v3
fails no-groups "no-groups/config.json: error: the number of groups of experts is 0, expected 1 to 4096" no-groups
config other-groups 's/"topk_group": 1/"topk_group": 3/' deepseek_v3
fails other-groups "layer 1: the best 3 of 2 groups of experts" other-groups
config many-experts 's/"num_local_experts": 4/"num_local_experts": 1000000000/' mixtral
fails many-experts "num_local_experts is 1000000000, expected 0 to 4096" many-experts
config more-experts 's/"num_local_experts": 4/"num_local_experts": 6/' mixtral
fails more-experts "block_sparse_moe.gate.weight: shape [4, 64], expected [6, 64] by config.json" more-experts
config other-rank 's/"kv_lora_rank": 32/"kv_lora_rank": 36/' deepseek_v3
fails other-rank "kv_a_proj_with_mqa.weight: shape [40, 64], expected [44, 64] by config.json" other-rank
config all-shared 's/"num_kv_shared_layers": 0/"num_kv_shared_layers": 6/' gemma4
fails all-shared "num_kv_shared_layers is 6 of 6 layers: none is left whose keys and values layer 0, which has sliding" \
    all-shared

config no-comma '/"attention_bias"/s/,$//'
fails no-comma "no-comma/config.json:6:" no-comma

copy truncated
head -c 200000 truncated/model.safetensors >part && mv part truncated/model.safetensors
fails truncated "(truncated download?)" truncated
copy short-header
head -c 100 short-header/model.safetensors >part && mv part short-header/model.safetensors
fails short-header "truncated: the header takes" short-header
copy absurd-header
printf '\377\377\377\377\377\377\377\177' | dd of=absurd-header/model.safetensors conv=notrunc status=none
fails absurd-header "header length 9223372036854775807, at most 100000000 is allowed" absurd-header
copy no-tensors
rm no-tensors/model.safetensors
fails no-tensors "no model.safetensors and no model.safetensors.index.json here" no-tensors

# Weights without an index: one file of any name, all shards of a model; adapters beside them are not weights.
same_as() { # FOLDER MODEL
    "$DOPPLERC" "$1" -o "$1.plan" --quiet --ctx 64 && "$DOPPLERC" "$2" -o whole.plan --quiet --ctx 64 &&
        cmp "$1.plan" whole.plan
}
copy lone
mv lone/model.safetensors lone/gptq_model-4bit.safetensors
echo x >lone/adapter_model.safetensors
check "weights of another name" same_as lone "$SRC/tests/golden/llama"
cp lone/gptq_model-4bit.safetensors lone/other.safetensors
fails two-models "not those of one model: a part is missing, or there are several" lone
mkdir lone-shard && mv lone/config.json lone-shard && mv lone/other.safetensors lone-shard/model-00001-of-00002.safetensors
fails lone-shard "not those of one model: a part is missing, or there are several" lone-shard
mv lone-shard/model-00001-of-00002.safetensors lone-shard/model-00001-of-00001.safetensors
check "a shard that is all" same_as lone-shard "$SRC/tests/golden/llama"
copy no-shard
rm no-shard/model.safetensors
echo '{"weight_map": {"lm_head.weight": "part-1.safetensors"}}' >no-shard/model.safetensors.index.json
fails no-shard "no-shard/part-1.safetensors: error: cannot open: No such file or directory" no-shard

# Names of files in a model's files stay within its folder.
mkdir outside
for path in ../outside ../../x /etc 1_Pooling/../../outside ..; do
    rm -rf modules && cp -r "$SRC/tests/encoders/embeddinggemma" modules && chmod -R u+w modules && cp -r modules/1_Pooling/. outside
    sed -i "s#\"1_Pooling\"#\"$path\"#" modules/modules.json
    fails "outside-module" "leads out of the model's folder" modules
    copy outside-shard && rm outside-shard/model.safetensors
    printf '{"weight_map": {"lm_head.weight": "%s"}}' "$path" >outside-shard/model.safetensors.index.json
    fails "outside-shard" "is not a plain file name" outside-shard
    rm -rf outside-shard
done

# ---- quantized by AWQ and GPTQ ----------------------------------------------------------------------------------------
# quantized NAME KIND GROUP [EXPRESSION]: config.json goes through sed
quantized() {
    rm -rf "$1"
    "$TOOLS/make_int4" "$2" "$3" "$SRC/tests/golden/llama" "$1" values && sed -i "${4:-}" "$1/config.json"
}

quantized method awq 32 's/"awq"/"eetq"/'
fails method 'quantization_config.quant_method "eetq" is not supported; known: awq, gptq, mxfp4, fp8' method
quantized five-bits gptq 32 's/"bits": 4/"bits": 5/'
fails five-bits "quantization_config.bits is 5; 2, 3, 4 and 8 bits are supported" five-bits
quantized bad-group awq 32 's/"group_size": 32/"group_size": 48/'
fails bad-group "quantization_config.group_size is 48; groups of 32, 64, 128" bad-group
quantized gemv awq 32 's/"gemm"/"gemv_fast"/'
fails gemv 'quantization_config.version "gemv_fast" is not supported; known: gemm, gemv' gemv
quantized other-group gptq 32 's/"group_size": 32/"group_size": 64/'
fails other-group "q_proj.qzeros: shape [2, 8], expected [1, 8] by config.json" other-group
quantized act-order gptq_act 32
cost='note: .*matrices in activation order (desc_act) become f16, up to 4 times their bytes'
check "act-order: with a note that says what it costs" grep -q "$cost" \
    <("$DOPPLERC" act-order -o act-order.plan 2>&1)
quantized cut awq 32
head -c 30000 cut/model.safetensors >part && mv part cut/model.safetensors
fails cut "(truncated download?)" cut

printf 'GGUF\003\000\000\000' >cut.gguf
fails cut-gguf "cut.gguf: error: the GGUF file ends inside its header" cut.gguf
mkdir -p manifest
echo '{"version": 2}' >manifest/manifest.json
fails manifest "manifest/manifest.json: error: version is not 1" manifest
finish
