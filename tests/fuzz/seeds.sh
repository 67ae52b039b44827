#!/usr/bin/env bash
# seeds.sh TARGET FOLDER TOOLS: what this tree has of inputs for a fuzz target, into the folder; beside tests/fuzz/corpus, which has
# what fuzzing found.  TOOLS is where fuzz_plan and fuzz.plan are: a plan's rows change with its version, and inputs that were found
# with other rows open nothing.
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/../.." && pwd) target=$1 tools=$3
mkdir -p "$2" && cd "$2" || exit 1
tokenizers=$root/tests/tokenizers

# The header of a safetensors file, whose length is its first eight bytes.
header() {
    head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9
}

# The graph of a pass test before its passes.
graph() {
    sed -n '/^---/q; /^#/!p' "$1"
}

[ ! -d "$root/tests/fuzz/found/$target" ] || cp "$root/tests/fuzz/found/$target"/* . # what went wrong once

case $target in
json)
    for config in "$root"/tests/golden/{llama,mamba2,gemma4,lfm2}/config.json; do
        { printf '\1' && cat "$config"; } >"$(basename "$(dirname "$config")")"
    done
    printf '\0\357\273\277{"a\\u0000": [1e400, -Infinity, 123456789012345678901, 0.1, "\\ud83d\\ude00\\udc00"]}' >odd
    ;;
audio)
    cp "$tools/fuzz.wav" wav
    head -c 4000 "$tools/fuzz.wav" >cut
    printf 'fLaC\0\0\0\042\020\0\020\0\0\0\0\0\0\0\003\350\0\360' >flac
    printf 'OggS\0\002\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0\001\023OpusHead\001\001\0\0\200\076\0\0\0\0\0' >opus
    printf 'FORM\0\0\0\100AIFFCOMM\0\0\0\022\0\001\0\0\0\010\0\020\100\014\372\0\0\0\0\0\0\0SSND\0\0\0\030' >aiff
    ;;
ggml)
    cp "$tools/fuzz.bin" whole
    head -c 1000 "$tools/fuzz.bin" >cut
    ;;
tokenizer_json)
    cp "$tokenizers/tekken/tekken.json" tekken
    for name in unigram wordpiece wordpiece-cased; do
        cp "$tokenizers/$name/tokenizer.json" "$name"
    done
    ;;
tokenizer_model)
    for name in spm-bpe spm-unigram; do
        cp "$tokenizers/$name/tokenizer.model" "$name"
    done
    ;;
tokenizer_tiktoken)
    { echo '?[a-z]+|.' && cat "$tokenizers/tiktoken/small.tiktoken"; } >small
    ;;
grammar)
    sed -nE 's/^ *\{"grammar": "(([^"\\]|\\.)*)".*/\1/p' "$root/tests/grammar/corpus.json" |
        awk '{ gsub(/\\n/, "\n"); gsub(/\\"/, "\""); gsub(/\\\\/, "\\"); printf "%s", $0 > ("grammar-" NR) }'
    ;;
schema)
    grep -oE '"schema": .*, "says"|^  [{].*[^],]' "$root/tests/grammar/corpus.json" |
        sed -E 's/^"schema": //; s/, "says"$//' | awk '/^ *[{]/ { print $0 > ("schema-" NR) }'
    ;;
hf)
    for config in "$root"/tests/golden/*/config.json; do
        model=${config%/*}
        { cat "$config" && printf '\0' && header "$model/model.safetensors"; } >"${model##*/}"
    done
    # The forms of other quantizers, by their names.
    for form in 'awq SCB' 'bitsandbytes SCB' 'bitsandbytes weight.absmax' 'hqq W_q' 'fp8 weight_scale_inv'; do
        {
            how="{\"quant_method\": \"${form% *}\", \"version\": \"gemv\", \"bits\": 4, \"group_size\": 32}"
            sed "s/\"hidden_size\"/\"quantization_config\": $how, &/" "$root/tests/golden/llama/config.json" && printf '\0' &&
                header "$root/tests/golden/llama/model.safetensors" |
                sed -E "s/\"([a-z0-9_.]*[qk]_proj)\.weight\":(\{[^}]*\})/&,\"\1.${form#* }\":\2/g; s/(proj.weight\":\{\"dtype\":\")BF16/\1I8/"
        } >"llama-${form//[ .]/-}"
    done
    { # MLX: words, scales and biases
        sed 's/"hidden_size"/"quantization": {"group_size": 32, "bits": 4}, &/' "$root/tests/golden/llama/config.json" && printf '\0' &&
            header "$root/tests/golden/llama/model.safetensors" |
            sed -E 's/"([a-z0-9_.]*[qk]_proj)\.weight":(\{[^}]*\})/&,"\1.scales":\2,"\1.biases":\2/g; s/(proj.weight":\{"dtype":")BF16/\1U32/'
    } >llama-mlx
    ;;
picture)
    cp "$root"/tests/pictures/*.{png,jpg,webp,gif} .
    ;;
image_processor)
    for model in "$root"/tests/vision/*/; do
        { cat "$model/preprocessor_config.json" && printf '\0' && cat "$model/config.json"; } >"$(basename "$model")"
    done
    ;;
hf_vision)
    for model in "$root"/tests/vision/*/model.safetensors; do
        { cat "${model%/*}/config.json" && printf '\0' && header "$model"; } >"$(basename "${model%/*}")"
    done
    ;;
mmproj)
    for model in "$root"/tests/vision/*/; do
        "$tools/hf_to_gguf" "$model" whole mmproj && head -c 20000 whole >"$(basename "$model")" # the rest is weights
        rm -f whole
    done
    ;;
gguf)
    for name in bert modernbert embeddinggemma xlm_roberta_cross t5_encoder; do
        "$tools/hf_to_gguf" "$root/tests/encoders/$name" whole && head -c 20000 whole >"$name"
        rm -f whole
    done
    ;;
draw_model)
    # Names and shapes of the small models, with twice the channels, which then make groups of 32.
    for model in sd15 sd21:open-clip sdxl:xl; do
        "$tools/single_file" "$root/tests/diffusion/${model%:*}" whole $(echo "$model" | sed -n 's/.*://p') || continue
        {
            [ "${model%:*}" = sd15 ] || cat "$root/tests/diffusion/${model%:*}/scheduler/scheduler_config.json"
            printf '\0{'
            header whole | grep -oE '"[^"]*":\{[^}]*"shape":\[[0-9,]*\]' | sed -E 's/:\{.*"shape":/:/' |
                awk -F: '{ n = split($2, d, /[][,]/); s = ""
                           for (i = 1; i <= n; i++) if (d[i] != "") s = s (s == "" ? "" : ",") (d[i] % 16 ? d[i] : 2 * d[i])
                           printf "%s%s:[%s]", (NR > 1 ? "," : ""), $1, s }'
            printf '}'
        } >"${model%:*}"
        rm -f whole
    done
    ;;
control)
    ! command -v python3 >/dev/null || python3 "$root/tests/tools/control_vector.py" vector 0,1,3 8 1 1
    ;;
imatrix) # the older form: entries of a name, calls and values; then the calls of all and the name of the text
    { printf '\1\0\0\0\023\0\0\0blk.0.attn_q.weight\2\0\0\0\010\0\0\0' && printf '\0\0\200?%.0s' 1 2 3 4 5 6 7 8 &&
        printf '\2\0\0\0\4\0\0\0text'; } >old
    ;;
models_file)
    printf 'models:\n  - {id: a, plan: a.plan, aliases: [b, c]}\n  - {id: d, model: e.gguf, ctx: 512, kv: q8_0, force: [x, y], rows: "2,4"}\n' >file
    printf 'models:\n  - {id: a, hf: "USER/REPO:Q4_K_M", mmproj: m.gguf}\n' >hf
    ;;
orders)
    printf '\3\0\0\0\1\0\0\0\0\0\0\0\1%027d' 0 | tr 0 '\0' >step
    printf '\4\0\0\0\1\0\0\0\1%027d' 0 | tr 0 '\0' >pages
    ;;
hub)
    file='{"type":"file","oid":"%040d","size":3,"path":"%s"}'
    # shellcheck disable=SC2059
    { printf 'a/b\n[' && printf "$file," 1 config.json 2 tokenizer.json && printf "$file]" 3 model.safetensors; } >folder
    # shellcheck disable=SC2059
    { printf 'a/b@v1:Q4_K_M\n[' && printf "$file]\0[" 1 x-Q4_K_M-00001-of-00002.gguf && printf "$file," 2 x-Q4_K_M-00002-of-00002.gguf &&
        printf '{"type":"file","lfs":{"oid":"%064d","size":9},"path":"mmproj-F16.gguf"}]' 4; } >parts
    ;;
draw_adapter)
    cp "$root/tests/diffusion/sd15_lora/pytorch_lora_weights.safetensors" peft
    ! command -v python3 >/dev/null || for form in kohya kohya-single diffusers; do
        python3 "$root/tests/tools/draw_adapter.py" $form peft $form
    done
    ;;
form)
    part='%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    # shellcheck disable=SC2059
    printf "$part" --b prompt 'a house' --b 'a[]' x >head
    for picture in gray1.png small.gif lossy.webp; do
        { cat head &&
            printf '%s\r\nContent-Disposition: form-data; name="image"; filename="a"\r\nContent-Type: image/png\r\n\r\n' --b &&
            cat "$root/tests/pictures/$picture" && printf '\r\n--b--\r\n'; } >"$picture"
    done
    printf '%s\r\nContent-Disposition: form-data; name=file\r\n\r\nRIFF\r\n--b--\r\n' --b >unquoted
    ;;
safetensors)
    { head -c 8 "$root/tests/golden/gpt2/model.safetensors" && header "$root/tests/golden/gpt2/model.safetensors"; } >gpt2
    ;;
plan | plan_run)
    "$tools/fuzz_plan" --shrink "$tools/fuzz.plan" llama
    ;;
http)
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}' >length
    printf 'POST / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: t\r\n\r\n' >chunks
    printf 'GET http://localhost/a%%20b?c HTTP/1.0\r\nOrigin: http://a\r\nConnection: keep-alive, close\r\n\r\n' >absolute
    ;;
target)
    cp "$root"/examples/targets/*.yaml .
    ;;
rdrr)
    # Shards of zeros stand for the models' own; blake3 is not verified.
    asks='{"hashAlgorithm": "blake3", "optimizations": {"kernelPath": "f32-f32a", "forceKernels": {"matmul": "gemv"}}}'
    for model in golden/{gemma4,lfm2,qwen3_5,gemma3} encoders/embeddinggemma; do
        "$tools/hf_to_rdrr" "$root/tests/$model" rdrr "$asks" && sed 's/shard_00000/shard_0/' rdrr/manifest.json >"${model##*/}"
    done
    rm -rf rdrr
    ;;
kernel_path)
    cp "$root"/examples/kernel-paths/*.yaml .
    ;;
ir | ir_interpret | ir_compile)
    for file in "$root"/tests/passes/*.dir; do
        { [ "$target" != ir_compile ] || printf '\002'; graph "$file"; } >"$(basename "$file" .dir)"
    done
    ;;
esac
exit 0
