# Memory that runs out somewhere while a model is compiled: an error with a message and no file, wherever that happens
# (tests/faults/fail_alloc.c).  By default for some allocations of each place in the program; with `whole` for every one.
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/golden
whole=${1:-}

# Reading models: a half of the places in release, a sixteenth with sanitizers, which take five times as long; the rest a sixth and a quarter.
fails() { # NAME WHAT MODEL TARGET EVERY
    local every=$5
    if [ -n "$whole" ]; then
        every=0
    elif [[ $2 = load || $2 = drafter ]] && [ -n "${ASAN_OPTIONS:-}" ]; then
        every=$((every * 16))
    elif [[ $2 != load && $2 != drafter ]]; then
        [ -n "${ASAN_OPTIONS:-}" ] && every=$((every * 4)) || every=$((every * 6))
    else
        every=$((every * 2))
    fi
    check "$1" "$TOOLS/fail_alloc" "$2" "$3" "$4" $every
}

printf '%s\n' "base: nvidia-hopper" "name: one-workgroup" "subgroup: 8" "max_workgroup: 256" "shared_bytes: 32768" \
    "cores: 1" "persistent: 64" "caps: [f16_storage, f16_math, i8_storage, subgroup]" >one-workgroup.yaml

fails "Hugging Face: gemma3" load "$golden/gemma3" tier1 1
fails "Hugging Face: gpt2" load "$golden/gpt2" tier1 1
check "a GGUF file" "$TOOLS/make_gguf" smollm2-135m q8_0 model.gguf empty && fails "GGUF" load model.gguf tier1 1
if [ -d "$SHARED/models/shakespeare-gemma3-rdrr" ]; then
    fails "RDRR" load "$SHARED/models/shakespeare-gemma3-rdrr" tier1 3
else
    skip "RDRR" "no data beside the project"
fi
if command -v python3 >/dev/null; then
    python3 "$SRC/tests/tools/eagle.py" make eagle vocab=40 taps=2,3,6
    fails "a drafter" drafter eagle tier1 4
else
    skip "a drafter" "python3 is absent"
fi
fails "llama: a plan" plan "$golden/llama" tier1 2
fails "qwen3: a plan with a persistent dispatch" plan "$golden/qwen3" one-workgroup.yaml 4
fails "gemma3_hd256: a plan in parts, with persistent dispatches" parts "$golden/gemma3_hd256" one-workgroup.yaml 2
fails "gemma2: kernels for a CPU" compile "$golden/gemma2" lavapipe 3
fails "llama: kernels with matrix units" compile "$golden/llama" nvidia-hopper 3
finish
