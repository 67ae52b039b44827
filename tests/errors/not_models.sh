# What people name in place of a model or a plan: one line that says what it is and what to do.  And a folder with one GGUF
# file, which is a model.
. "$(dirname "$0")/../lib.sh"

export LD_LIBRARY_PATH=$TOOLS/as_written # the compiler that doppler-exec loads

# refused NAME PATH TEXT [TEXT OF DOPPLER-EXEC [FOLDER]]: by both programs.  What doppler-exec would compile it refuses with TEXT, too.
refused() {
    local given=${5:-$2} path=${5:-$2} text=${4:-}
    check_fails "$1" 1 "$2: error: $3" "$DOPPLERC" "$given" -o made.plan
    if [ -d "$given" ] || [ "$(head -c 4 "$given" | tr -d '\0')" = GGUF ]; then
        path=$2 text=$3
    fi
    [ -z "$text" ] || check_fails "$1, in place of a plan" 1 "$path: error: $text" "$EXEC" "$given" -p x
}

# gguf FILE KEY VALUE...: metadata of strings, and no tensors
gguf() {
    local file=$1
    shift
    {
        printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0'
        length $(($# / 2))
        while [ $# -gt 0 ]; do
            length ${#1} && printf '%s\10\0\0\0' "$1" && length ${#2} && printf '%s' "$2"
            shift 2
        done
    } >"$file"
}

length() { # 64 bits, of a number below 256
    printf "\\$(printf %03o "$1")\0\0\0\0\0\0\0"
}

copy() { # NAME
    cp -r "$SRC/tests/golden/llama" "$1" && chmod -R u+w "$1"
}

# ---- pointers of Git LFS ----------------------------------------------------------------------------------------------------
pointer="this is a Git LFS pointer, not the file that it stands for: run \`git lfs pull\` in its folder"
lfs() { # FILE
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 134\n' 0 >"$1"
}
for part in config.json model.safetensors tokenizer.json generation_config.json tokenizer_config.json chat_template.jinja; do
    copy "lfs-$part"
    lfs "lfs-$part/$part"
    refused "a pointer as $part" "lfs-$part/$part" "$pointer" "this is a model, not a plan: compile it first" "lfs-$part"
done
copy lfs-index
rm lfs-index/model.safetensors
lfs lfs-index/model.safetensors.index.json
refused "a pointer as an index" lfs-index/model.safetensors.index.json "$pointer" "" lfs-index
lfs model.gguf
refused "a pointer as a GGUF file" model.gguf "$pointer" "$pointer"
check_fails "a pointer as a tokenizer" 1 "$pointer" "$EXEC" --tokenizer lfs-tokenizer.json/tokenizer.json --tokenize "$SRC/LICENSE"

# ---- folders ----------------------------------------------------------------------------------------------------------------
folder="this is a folder, not a plan"
mkdir lora diffusion pickles maker vision several
echo '{"base_model_name_or_path": "meta-llama/Llama-3.2-1B"}' >lora/adapter_config.json
touch lora/adapter_model.safetensors
refused "an adapter" lora "this is a LoRA adapter of meta-llama/Llama-3.2-1B, not a model: name that model, and this folder with --lora" "$folder"
echo '{"_class_name": "StableDiffusionPipeline"}' >diffusion/model_index.json
refused "a diffusion pipeline" diffusion "this is a diffusion pipeline (StableDiffusionPipeline), which is not supported" "$folder"
cp "$SRC/tests/golden/llama/config.json" pickles && touch pickles/pytorch_model.bin
refused "pickles" pickles "weights are here as PyTorch saves them only" "this is a model, not a plan"
touch maker/params.json maker/consolidated.00.pth
refused "a maker's own form" maker "this is a model in its maker's own form" "$folder"
touch vision/mmproj-model-f16.gguf
refused "a vision part in a folder" vision "only the vision part (mmproj) of a model is here" "$folder"
touch several/b-q4_0.gguf several/a-q8_0.gguf several/c-00001-of-00002.gguf several/c-00002-of-00002.gguf several/mmproj-a.gguf
refused "several files" several "this folder has 3 GGUF files, name one of them: a-q8_0.gguf, b-q4_0.gguf, c-00001-of-00002.gguf" ""

# ---- files ------------------------------------------------------------------------------------------------------------------
printf 'PK\3\4pickle' >model.pth
refused "a pickle" model.pth "not a model: this is a checkpoint as PyTorch saves it" "not a Doppler plan: this is a checkpoint as PyTorch"
printf '<!DOCTYPE html>\n<html></html>' >page.gguf
refused "a page" page.gguf "not a model: this is a web page" "not a Doppler plan: this is a web page"
printf 'tjgg\1\0\0\0' >old.bin
refused "GGML" old.bin "not a model: this is a GGML file, GGUF's predecessor" "not a Doppler plan: this is a GGML file"
{ printf lmgg && head -c 80 /dev/zero; } >older.bin
refused "GGML without a version" older.bin "this GGML file is of no model of speech" "this GGML file is of no model of speech"
weights=$SRC/tests/golden/llama/model.safetensors
refused "weights alone" "$weights" "not a model: these are the weights alone: name the folder" \
    "not a model: these are the weights alone: name the folder"
refused "a configuration" "$SRC/tests/golden/llama/config.json" "not a model: this is a JSON file: name the folder" "not a Doppler plan"
cp "$SRC/tests/golden/llama/model.safetensors" adapter_model.safetensors
refused "an adapter's file" adapter_model.safetensors "not a model: this is a LoRA adapter" ""
gguf adapter.gguf general.architecture llama general.type adapter general.base_model.0.name "Llama 3"
refused "an adapter as GGUF" adapter.gguf "this is a LoRA adapter of Llama 3, not a model: name its model, and this with --lora" \
    "this is a model, not a plan"
gguf mmproj.gguf general.architecture clip general.type mmproj
refused "a vision part" mmproj.gguf "this is the vision part (mmproj) of a model" ""
gguf clip.gguf general.architecture clip
refused "an older vision part" clip.gguf "this is the vision part (mmproj) of a model" ""

# ---- names ------------------------------------------------------------------------------------------------------------------
hub="no file or folder is here; if this is a name on a model hub, download the model (hf download"
refused "a hub's name" org/model-1.5B "$hub org/model-1.5B --local-dir FOLDER)" "$hub"
refused "a URL" https://huggingface.co/org/model "nothing is fetched: download the model" "nothing is fetched"
refused "a missing file" some/model.gguf "cannot open: No such file or directory" "cannot open"

# ---- a folder with one GGUF file --------------------------------------------------------------------------------------------
mkdir one
check "a GGUF file" "$TOOLS/hf_to_gguf" "$SRC/tests/golden/llama" one/model.gguf
cp "$SRC/tests/golden/llama/config.json" one # as some publishers leave it there
touch one/mmproj-model.gguf
check "a folder with one GGUF file is a model" "$DOPPLERC" one -o one.plan --emit ir --target lavapipe
# LeakSanitizer's tracer falls over a thread of the software driver here ("Tracer caught signal 11"); errors.models
# looks for leaks.
without_leak_check() {
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "$@"
}
check "... which doppler-exec compiles and runs" without_leak_check "$EXEC" one --target lavapipe --ctx 64 --chunks 8 \
    --tokens "5 6" -n 1
gguf model-plan.gguf general.architecture llama
check_fails "a GGUF file without tensors" 1 "model-plan.gguf: error: " "$EXEC" model-plan.gguf -p x

finish
