# A short run of the fuzz targets of a group (tests/fuzz): the inputs that the tree has and that long runs found, and some more.
# Run by ctest with the group as argument.  The same seed of random numbers every time: a failure can be repeated.
. "$(dirname "$0")/lib.sh"
case $1 in
text) targets="tokenizer_json tokenizer_model tokenizer_tiktoken tokenizer_blob chat grammar schema" ;;
models) targets="audio ggml picture image_processor hf_vision mmproj gguf hf hf_beside adapter draw_model draw_adapter safetensors rdrr target
        kernel_path tuning quant control imatrix models_file orders hub"
    ln -s "$TOOLS/single_file" "$TOOLS/hf_to_gguf" "$TOOLS/hf_to_rdrr" . # for seeds.sh
    ln -s "$SRC/tests/diffusion/sd15" fuzz.draws
    "$TOOLS/sound" 1 1 >fuzz.wav && "$TOOLS/speech_model" fuzz.bin tiny f16 hidden=8 heads=2 bins=1 rows=4 ctx=8 languages=0 || exit 1
    ;;
ir) targets="ir ir_interpret ir_compile" ;;
served)
    targets="plan plan_run session api form http"
    "$DOPPLERC" "$SRC/tests/golden/llama" -o fuzz.plan --quiet --target tier3 --chunks 8 --ctx 64 --embed || exit 1
    ;;
esac
cp "$TOOLS/fake_driver.so" "$TOOLS/fake_driver.json" .
for target in $targets; do
    ln "$TOOLS/fuzz" "fuzz_$target" # the program looks for its files beside itself
    mkdir "$target.new"
    bash "$SRC/tests/fuzz/seeds.sh" "$target" "$target.seeds" "$WORK"
    mkdir "$target" # what long runs have found, if there was one
    [ ! -e "$SRC/tests/fuzz/corpus/$target.tar.xz" ] || tar -xJf "$SRC/tests/fuzz/corpus/$target.tar.xz"
    inputs=$(find "$target" "$target.seeds" -type f | wc -l)
    check "$target: $inputs inputs, and some more" "./fuzz_$target" "$target.new" "$target" "$target.seeds" -runs=$((inputs + 200)) \
        -max_total_time=1 -seed=1 -rss_limit_mb=1024 -malloc_limit_mb=128 -timeout=20 -max_len=131072
done
finish
