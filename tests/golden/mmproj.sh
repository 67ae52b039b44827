# A GGUF model with its vision part in a file of its own (mmproj), named or beside it, gives the logits and greedy ids of the reference for
# a prompt with a picture.  `whole`: all models.
. "$(dirname "$0")/../lib.sh"
bound=5e-4 # of text models, with caches in f32

# folder NAME FOLDER: a copy of a model's folder.
folder() {
    mkdir "hf-$1" && cp "$2"/* "hf-$1" && chmod -R u+w "hf-$1"
}

# converted NAME: text.gguf and mmproj.gguf in a folder of this name.
converted() {
    mkdir "$1" && "$TOOLS/hf_to_gguf" "hf-$1" "$1/text.gguf" && "$TOOLS/hf_to_gguf" "hf-$1" "$1/mmproj.gguf" mmproj
}

# prompted NAME MODEL OPTION...
prompted() {
    local name=$1 model=$2 logits=$2/logits.f32
    shift 2
    [ -e "$logits" ] || logits=$SHARED/golden/vision/$name/logits.f32
    "$TOOLS/expect" tokens "$model/expected.json" . >prompt
    check "$name: compiles" "$DOPPLERC" "$name/text.gguf" -o "$name.plan" --quiet --target lavapipe --chunks 8 --kv f32 "$@" &&
        check "$name: a prompt with a picture" sh -c '"$@" >ids' sh "$EXEC" "$name.plan" --tokens-file prompt \
            --image "$model/image.png" --logits got.f32 -n 8 --temp 0 --ignore-eos --print-ids --quiet &&
        check "$name: logits" "$TOOLS/expect" logits "$model/expected.json" . "$logits" got.f32 $bound &&
        check "$name: ids" "$TOOLS/expect" ids "$model/expected.json" . ids 0.01
}

if [ "${1:-}" = whole ]; then
    for name in gemma4_vl gemma4_vl_wide lfm2_vl gemma3_vl llava smolvlm mistral3 internvl qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5_vl; do
        model=$SHARED/golden/vision/$name
        [[ $name != lfm2* && $name != gemma4* ]] || model=$SRC/tests/vision/$name
        [ -d "$model" ] || { skip "$name" "../shared/golden/vision is not there" && continue; }
        check "$name: copied" folder "$name" "$model"
        check "$name: converts" converted "$name" && prompted "$name" "$model"
    done
    finish
    exit
fi

models=$SRC/tests/vision
check "copied" folder gemma3_vl "$models/gemma3_vl"
check "converts" converted gemma3_vl && prompted gemma3_vl "$models/gemma3_vl"
check "copied" folder qwen3_vl "$models/qwen3_vl"
check "converts" converted qwen3_vl && mv qwen3_vl/mmproj.gguf vision.gguf

compiles() {
    "$DOPPLERC" "$1" -o new.plan --target lavapipe --chunks 8 "${@:2}"
}
says() { # TEXT COMMAND...
    "${@:2}" 2>said >/dev/null && grep -qF -- "$1" said
}
check "says which file it took" says "the vision part is mmproj.gguf, which is beside the model" compiles gemma3_vl/text.gguf
check "a folder with both" says "the vision part is mmproj.gguf" compiles gemma3_vl
cp vision.gguf gemma3_vl/other-mmproj-f16.gguf
check "two beside the model" says "2 vision parts (mmproj) are beside the model: name one with --mmproj" compiles gemma3_vl/text.gguf
rm gemma3_vl/other-mmproj-f16.gguf
check "converts" "$TOOLS/hf_to_gguf" "$SRC/examples/shakespeare-gemma3" wide.gguf
check_fails "of another width" 1 "vision.gguf: error: its features are no rows of the text model" compiles wide.gguf --mmproj vision.gguf
head -c 3000 vision.gguf >cut.gguf
check_fails "no vision part" 1 "text.gguf: error: clip.projector_type is missing: this is no vision part" \
    compiles gemma3_vl/text.gguf --mmproj gemma3_vl/text.gguf
check_fails "cut off" 1 "cut.gguf: error:" compiles gemma3_vl/text.gguf --mmproj cut.gguf
check_fails "no file" 1 "none.gguf: error: cannot open" compiles gemma3_vl/text.gguf --mmproj none.gguf
check_fails "another format" 1 "--mmproj is for a GGUF model with a vocabulary" compiles hf-gemma3_vl --mmproj vision.gguf
check_fails "a plan" 2 "--mmproj is part of the plan" "$EXEC" gemma3_vl.plan --mmproj vision.gguf --info
check_fails "the plan in its place" 2 "mmproj.gguf: error: this file is an input" \
    "$DOPPLERC" gemma3_vl/text.gguf -o gemma3_vl/mmproj.gguf --target lavapipe
# A kind that is not known beside the model leaves it to texts; named, it is an error.
LC_ALL=C sed 's/qwen3vl_merger/qwen9vl_merger/' vision.gguf >odd.gguf
check_fails "a kind that is not known" 1 'clip.projector_type "qwen9vl_merger" is not supported; known: mlp, gemma3, gemma4v,' \
    compiles gemma3_vl/text.gguf --mmproj odd.gguf
mv odd.gguf qwen3_vl/mmproj-odd.gguf
check "... beside the model" says "the vision part beside the model, mmproj-odd.gguf, is left out" compiles qwen3_vl/text.gguf

# A model in the place of a plan: another vision part beside it makes another plan.
card() { # STATUS OPTION...: whether the card has the program
    "$EXEC" gemma3_vl/text.gguf --cache-dir cache --target lavapipe --chunks 8 --info "${@:2}" >info || return 2
    grep -q '^program .*image: rows of' info
    [ $? = "$1" ]
}
check "in the place of a plan" card 0
mv gemma3_vl/mmproj.gguf kept.gguf
check "without the vision part" card 1
check "named" card 0 --mmproj kept.gguf
finish
