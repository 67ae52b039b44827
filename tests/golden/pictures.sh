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

models=$SRC/tests/vision
if [ "$whole" = whole ]; then
    for model in "$models"/* "$SHARED"/golden/vision/*; do
        name=${model##*/}
        [ -f "$model/model.safetensors" ] || continue
        pictured "$name" "$model" --target lavapipe
        pictured "$name-unfused" "$model" --target lavapipe --no-fuse
        pictured "$name-gpu" "$model" --target tier1.yaml --act f32 --kv f32
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
