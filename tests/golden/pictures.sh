# Vision towers give the features of an independent implementation by the program `image` of a plan, whose sequences are those of
# the text model.  `whole`: all models, unfused and for GPUs too, and --check.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
exact=1e-4 # everything in f32

printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml

# pictured NAME MODEL OPTION...
pictured() {
    local name=$1 model=$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --chunks 8 "$@" &&
        check "$name: as expected" "$TOOLS/pictured" "$name.plan" "$model" $exact
}

# agree PLAN: --check finds every kernel right.
agree() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}

# with_text NAME: the model's folder with a text model that can be compiled.  Qwen's take positions of three numbers, and with texts
# alone are those of Qwen without pictures; the others' output matrix is the embedding.
with_text() {
    local from=$SHARED/golden/vision/$1 kind=2
    [ "${1#qwen3}" = "$1" ] || kind=3
    mkdir "$1" && cp "$from"/* "$1" && chmod -R u+w "$1" &&
        sed -i -E 's/"tie_word_embeddings": false/"tie_word_embeddings": true/
            s/Qwen[0-9_]+VLForConditionalGeneration/Qwen'$kind'ForCausalLM/; s/"qwen[0-9_]+_vl_text"/"qwen'$kind'"/
            s/"mrope_interleaved": true,?//' "$1/config.json" &&
        tr '\n' ' ' <"$1/config.json" | sed -E 's/"mrope_section": \[[^]]*\],//' >whole.json && mv whole.json "$1/config.json"
}

models=$SRC/tests/vision
if [ "$whole" = whole ]; then
    for name in gemma3_vl llava smolvlm mistral3 internvl qwen2_vl qwen2_5_vl qwen3_vl; do
        [ -d "$SHARED/golden/vision/$name" ] || { skip "$name" "../shared/golden/vision is not there" && continue; }
        check "$name: copied" with_text "$name"
        pictured "$name" "$name" --target lavapipe
        pictured "$name-unfused" "$name" --target lavapipe --no-fuse
        pictured "$name-gpu" "$name" --target tier1.yaml --act f32 --kv f32
        check "$name: kernels agree" agree "$name.plan"
    done
    finish
    exit
fi

pictured gemma3_vl "$models/gemma3_vl" --target lavapipe
check "--info" sh -c '"$1" gemma3_vl.plan --info | grep -q "^program .*image: rows of"' sh "$EXEC"
check "--disasm" sh -c '"$1" gemma3_vl.plan --disasm | grep -q "features[0-9]"' sh "$EXEC"
check "tokens" "$EXEC" gemma3_vl.plan --tokens "2 5 7" -n 2 --quiet
check_fails "vectors" 1 "the plan gives no hidden states" "$EXEC" gemma3_vl.plan --embed --tokens 5
finish
