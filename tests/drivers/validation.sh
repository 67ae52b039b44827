# The newest validation there is: spirv-val and the validation layers of the next Debian (trixie) have nothing to say of modules for every
# kind of target, of families of every kind, and of how they are run, on lavapipe and, without a device, on the drivers of AMD and Intel.
# tests/run.sh does that with Debian 12's.  The packages are fetched, and all is skipped where they cannot be had.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_newer.sh"
suite=trixie
if ! newer $suite validation vulkan-validationlayers spirv-tools libvulkan1 mesa-vulkan-drivers >newer.log 2>&1; then
    skip "the newest validation" "packages of Debian's $suite could not be had"
    finish
fi

# ---- modules ----------------------------------------------------------------------------------------------------------
valid() { # TARGET MODEL [OPTION...]: every module, as users get it
    local target=$1 model=$2 file
    shift 2
    rm -rf modules && mkdir modules && "$DOPPLERC" "$SRC/tests/$model" --target "$target" --quiet --emit spirv "$@" | tar x -C modules || return
    [ -n "$(ls modules)" ] || return
    for file in modules/*.spv; do
        newer_run "$NEWER/usr/bin/spirv-val" --target-env vulkan1.2 "$file" || { echo "$file"; return 1; }
    done
}
wrong() { # a module that is cut short
    head -c 400 "$(compgen -G 'modules/*.spv' | head -n 1)" >cut.spv && ! newer_run "$NEWER/usr/bin/spirv-val" cut.spv
}
models=(golden/{mixtral,qwen3_5,deepseek_v3,deepseek_v32,mistral4,falcon_rw,falcon_h1,zamba2,gemma3n,gpt_oss,bitnet,kimi_linear}
    encoders/{bert,t5_encoder} vision/qwen3_vl speech/whisper diffusion/sd15)
targets=(tier1 tier3 nvidia-hopper amd-rdna3 intel-xe2)
for i in "${!models[@]}"; do # three targets of each model, in turn
    for j in 0 1 2; do
        target=${targets[(i + j) % ${#targets[@]}]}
        check "${models[i]} $target: modules" valid "$target" "${models[i]}" --chunks 16,64
    done
done
check "quantized nvidia-hopper: modules" valid nvidia-hopper ../examples/shakespeare-gemma3 --quant q4_k --rows 2,4 --sequences 4 --chunks 16,64
check "quantized tier1: modules" valid tier1 ../examples/shakespeare-gemma3 --quant q6_k --act f16 --chunks 16
check "a module that is cut short is found" wrong

# ---- running ----------------------------------------------------------------------------------------------------------
cat >vk_layer_settings.txt <<SETTINGS
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.log_filename = $WORK/said
khronos_validation.validate_sync = true
SETTINGS
layers=(env "VK_LAYER_PATH=$NEWER/usr/share/vulkan/explicit_layer.d" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
    "VK_LAYER_SETTINGS_PATH=$WORK/vk_layer_settings.txt")
libraries=$(newer_libraries)
under() { # COMMAND...: under the layers, with the driver that the environment names
    rm -f said
    # The program's output is not the point; its loader has the libraries of the suite, so that they are given to that alone.
    "${layers[@]}" "$(compgen -G "$libraries/ld-linux*.so.*")" "${preload[@]}" \
        --library-path "$libraries:$(dirname "$EXEC"):/usr/lib/${libraries##*/}" "$@" >out 2>err || { tail -n 5 err; return 1; }
    [ ! -s said ] || { cut -c1-600 said | head -n 20; return 1; }
}
preload=()
mistake() { ! under "$TOOLS/mistake" vulkan && grep -q 'VUID-VkBufferCreateInfo-size-00912' said; }
check "the layers find a mistake" mistake || finish
generates() { under "$EXEC" "$1" --tokens "1 2 3 4 5 6 7 8 9" -n 4 --temp 0 --ignore-eos --print-ids --quiet; }
for model in mixtral qwen3_5 deepseek_v32 mistral4 zamba2 gemma3n; do
    check "$model: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" -o p.plan --quiet --target lavapipe --chunks 8 --ctx 64 || continue
    check "$model: generates" generates p.plan
    check "$model: kernels" under "$EXEC" p.plan --check
done
check "sequences: compiles" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o p.plan --quiet --target lavapipe \
    --chunks 8 --ctx 64 --sequences 2 --rows 2
check "sequences: generates" under "$EXEC" p.plan -p "ROMEO: " -n 8 --temp 0 --session s --quiet
check "sequences: bench" under "$EXEC" p.plan --bench -p 8 -n 4 -b 2 -r 1
check "sequences: profile" under "$EXEC" p.plan --profile p.json -p "ROMEO: " -n 4
check "encoder: compiles" "$DOPPLERC" "$SRC/tests/encoders/bert" -o e.plan --quiet --target lavapipe
check "encoder: vectors" under "$EXEC" e.plan --embed --tokens "1 2 3 4"
check "drawing: compiles" "$DOPPLERC" "$SRC/tests/diffusion/turbo" -o d.plan --quiet --target lavapipe
check "drawing" under "$EXEC" d.plan --draw "a cat" -o cat.png --steps 1

# Kernels with matrix units, on devices that are not there: what drivers say that they can is compared with what modules ask for.
icd() { compgen -G "$NEWER/usr/share/vulkan/icd.d/$1_icd*.json" | head -n 1; }
makes() { # PATTERN: a table of kernels, all of which are made
    under "$EXEC" p.plan --report && tail -n 1 out | grep -q ': \([0-9]*\) of \1 kernels made'
}
VK_ICD_FILENAMES=$(icd radeon) VK_DRIVER_FILES=$VK_ICD_FILENAMES RADV_FORCE_FAMILY=navi31
export VK_ICD_FILENAMES VK_DRIVER_FILES RADV_FORCE_FAMILY
for model in mixtral deepseek_v32 gemma3_hd256; do
    check "$model: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" -o p.plan --quiet --target amd-rdna3 --chunks 16,64 &&
        check "$model: kernels on RADV" makes
done
if cc -std=gnu11 -shared -fPIC -O1 -isystem /usr/include/libdrm -o i915_stub.so "$SRC/tests/drivers/i915_stub.c" -ldl 2>/dev/null; then
    VK_ICD_FILENAMES=$(icd intel) VK_DRIVER_FILES=$VK_ICD_FILENAMES
    export I915_STUB=e20b,5,4
    preload=(--preload "$WORK/i915_stub.so")
    for model in mixtral deepseek_v32 gemma3_hd256; do
        check "$model: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" -o p.plan --quiet --target intel-xe2 --chunks 16,64 &&
            check "$model: kernels on ANV" makes
    done
else
    skip "kernels on ANV" "headers of its stub are not here (package libdrm-dev)"
fi
finish
