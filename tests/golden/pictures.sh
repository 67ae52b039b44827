# Vision towers give the features of an independent implementation by the program `image` of a plan, and the text model its logits and
# greedy ids for a prompt with a picture.  `whole`: all models, unfused and for GPUs too, and --check.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
exact=1e-4 # everything in f32
bound=5e-4 # of text models, with caches in f32

printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml

# pictured NAME MODEL OPTION...
pictured() {
    local name=$1 model=$2
    shift 2
    defaults "--chunks 8 --kv f32" "$@"
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet "${OPTIONS[@]}" &&
        check "$name: as expected" "$TOOLS/pictured" "$name.plan" "$model" $exact
}

# agree PLAN: --check finds every kernel right.
agree() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}

# prompted NAME MODEL: logits of the prompt with the picture, and the greedy ids behind it, are those of the reference.
prompted() {
    local name=$1 model=$2 logits=$2/logits.f32
    [ -e "$logits" ] || logits=$SHARED/golden/vision/$(basename "$2")/logits.f32
    "$TOOLS/expect" tokens "$model/expected.json" . >prompt
    check "$name: a prompt with a picture" sh -c '"$@" >ids' sh "$EXEC" "$name.plan" --tokens-file prompt \
        --image "$model/image.png" --logits got.f32 -n 8 --temp 0 --ignore-eos --print-ids --quiet
    check "$name: logits" "$TOOLS/expect" logits "$model/expected.json" . "$logits" got.f32 $bound
    check "$name: ids" "$TOOLS/expect" ids "$model/expected.json" . ids 0.01
}

# ours NAME: is the model one of this project's own?
ours() {
    [[ $1 == lfm2* || $1 == gemma4* ]]
}

# folder NAME: the model's folder.
folder() {
    ours "$1" && echo "$models/$1" || echo "$SHARED/golden/vision/$1"
}

models=$SRC/tests/vision
if [ "$whole" = whole ]; then
    for name in gemma4_vl gemma4_vl_wide lfm2_vl gemma3_vl llava smolvlm mistral3 internvl qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe \
        qwen3_5_vl; do
        model=$(folder "$name")
        [ -d "$model" ] || { skip "$name" "../shared/golden/vision is not there" && continue; }
        pictured "$name" "$model" --target lavapipe && prompted "$name" "$model"
        pictured "$name-unfused" "$model" --target lavapipe --no-fuse && prompted "$name-unfused" "$model"
        pictured "$name-gpu" "$model" --target tier1.yaml --act f32 --kv f32 && prompted "$name-gpu" "$model"
        check "$name: kernels agree" agree "$name.plan"
    done
    finish
    exit
fi

pictured gemma3_vl "$models/gemma3_vl" --target lavapipe
prompted gemma3_vl "$models/gemma3_vl"
check "--info" sh -c '"$1" gemma3_vl.plan --info | grep -q "^program .*image: rows of"' sh "$EXEC"
check "--disasm" sh -c '"$1" gemma3_vl.plan --disasm | grep -q "features[0-9]"' sh "$EXEC"
check "tokens" "$EXEC" gemma3_vl.plan --tokens "2 5 7" -n 2 --quiet
check_fails "vectors" 1 "the plan gives no hidden states" "$EXEC" gemma3_vl.plan --embed --tokens 5
check_fails "fewer places than rows" 1 "the prompt has 1 tokens of pictures (id 319), and the pictures have 4 rows" \
    "$EXEC" gemma3_vl.plan --tokens "2 319 7" --image "$models/gemma3_vl/image.png" -n 1 --quiet
check_fails "no picture" 1 "this is no picture of a known kind" \
    "$EXEC" gemma3_vl.plan --tokens "2 319 319 319 319 7" --image prompt -n 1 --quiet

# A table of positions that is resized, and a text model with convolutions (tests/vision/reference.py).
# In tiles, and the whole, which has another size.
check "tiles" "$DOPPLERC" "$models/lfm2_vl_tiles" -o tiles.plan --quiet --chunks 8 --kv f32 --target lavapipe
prompted tiles "$models/lfm2_vl_tiles"

# Per-layer inputs, positions by two tables, and products with bounds (tests/vision/gemma4.py).
pictured gemma4_vl "$models/gemma4_vl" --target lavapipe && prompted gemma4_vl "$models/gemma4_vl"

# Positions of three numbers, and results of inner layers of the tower.
pictured qwen3_vl "$models/qwen3_vl" --target lavapipe && prompted qwen3_vl "$models/qwen3_vl"
finish
