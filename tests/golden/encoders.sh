# Encoders and cross-encoders give the hidden states, vectors and scores of an independent implementation, for each text of a step
# whatever stands beside it.  `whole`: all models, unfused and for GPUs too, and --check.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
exact=5e-5 # everything in f32

printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml

# encodes NAME MODEL OPTION...
encodes() {
    local name=$1 model=$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --chunks 128 "$@" &&
        check "$name: as expected" "$TOOLS/encoded" "$name.plan" "$model" $exact
}

# agree PLAN: --check finds every kernel right.
agree() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}

models=$SRC/tests/encoders
if [ "$whole" = whole ]; then
    for model in "$models"/* "$SHARED"/golden/encoders/*; do
        name=${model##*/}
        [ -d "$model" ] || continue
        encodes "$name" "$model" --target lavapipe
        encodes "$name-unfused" "$model" --target lavapipe --no-fuse
        encodes "$name-gpu" "$model" --target tier1.yaml
        encodes "$name-plain" "$model" --target tier3 --kv f32
        check "$name: kernels agree" agree "$name.plan"
        check "$name-gpu: kernels agree" agree "$name-gpu.plan"
    done
    finish
    exit
fi

encodes bert "$models/bert" --target lavapipe
encodes modernbert "$models/modernbert" --target lavapipe
encodes xlm_roberta_cross "$models/xlm_roberta_cross" --target lavapipe

ids=$(grep -o '"ids": \[[^]]*' "$models/bert/expected.json" | grep -o '[0-9][0-9, ]*' | tr -d ,)
cat >texts.jsonl <<END
[${ids// /,}]
{"tokens": [5, 6, 7]}
END
vectors() { # a vector a line, of which the first is that of --tokens
    "$EXEC" bert.plan --embed -f texts.jsonl --quiet >vectors && [ "$(wc -l <vectors)" -eq 2 ] &&
        "$EXEC" bert.plan --embed --tokens "$ids" --quiet >one &&
        [ "$(head -n 1 vectors)" = "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' one)" ] && grep -q '"pooling":"mean"' one
}
check "--embed of a file" vectors
check "--embed=all" "$EXEC" bert.plan --embed=all --logits rows --tokens "$ids" --quiet
check "--embed=all writes rows" sh -c '[ "$(wc -c <rows)" -eq 6144 ]'
check "--score" sh -c '"$1" xlm_roberta_cross.plan --score --tokens "$2" --quiet | grep -q "\"scores\":\[1.02579"' sh "$EXEC" \
    "$(grep -o '"ids": \[[^]]*' "$models/xlm_roberta_cross/expected.json" | grep -o '[0-9][0-9, ]*' | tr -d ,)"
check "--info" sh -c '"$1" bert.plan --info | grep -q "^program .*encode"' sh "$EXEC"
check_fails "tokens from an encoder" 1 "the model encodes texts and gives no tokens" "$EXEC" bert.plan --tokens "1 2"
check_fails "vectors from a cross-encoder" 1 "gives scores of texts and no vectors" "$EXEC" xlm_roberta_cross.plan --embed --tokens 5
check_fails "scores from vectors" 1 "gives no scores of texts" "$EXEC" bert.plan --score --tokens 5
check_fails "a text that is too long" 1 "text 0 has 65 tokens, and this plan encodes at most 64" "$EXEC" bert.plan --embed \
    --tokens "$(seq -s ' ' 65)"
echo "{\"x\": 1}" >bad.jsonl
check_fails "a line that is none" 1 'expected a text, an object with "text"' "$EXEC" bert.plan --embed -f bad.jsonl
finish
