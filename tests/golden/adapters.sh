# Adapters merged into weights (dopplerc --lora): the logits of an independent implementation, fused and not, and those of the same
# adapter as a single file, scaled, merged twice, on a quantized model.  The argument `whole` is the long form: unfused, in f16, more
# mixtures and more families.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
golden=$SRC/tests/adapters/lora
sed 's/.*"prompt": \[\([^]]*\)\].*/\1/; s/,/ /g' "$golden/expected.json" >prompt

# logits NAME PLAN: of every token of the prompt
logits() {
    "$EXEC" "$2" --quiet --tokens-file prompt -n 0 --logits "$1" "${@:3}"
}

# near NAME REFERENCE BOUND OPTION...: the golden model, compiled with the options, gives the reference's logits.
near() {
    local name=$1 reference=$2 bound=$3
    shift 3
    check "$name: compiles" "$DOPPLERC" "$golden" -o a.plan --quiet --target lavapipe --chunks 7 "$@" || return
    check "$name: runs" logits a.f32 a.plan &&
        check "$name: logits" "$TOOLS/expect" logits "$golden/expected.json" . "$reference" a.f32 "$bound"
}

near "the model alone" "$golden/logits.f32" 5e-4 --kv f32
near "merged" "$golden/logits_adapter.f32" 5e-4 --kv f32 --lora "$golden/adapter"
cp a.f32 merged.f32
[ -z "$whole" ] || near "merged, unfused" "$golden/logits_adapter.f32" 5e-4 --kv f32 --no-fuse --lora "$golden/adapter"
near "merged, its file" merged.f32 5e-4 --kv f32 --lora "$golden/adapter/adapter_model.safetensors"
[ -z "$whole" ] || near "merged in two halves" "$golden/logits_adapter.f32" 5e-4 --kv f32 --lora "$golden/adapter:0.5" --lora "$golden/adapter:0.5"
near "merged with nothing" "$golden/logits.f32" 5e-4 --kv f32 --lora "$golden/adapter:0"
[ -z "$whole" ] || near "merged in f16" "$golden/logits_adapter.f32" 2e-2 --lora "$golden/adapter" --quant f16

# ---- loaded while the plan runs ------------------------------------------------------------------------------------------------
room() { # NAME OPTION...: the golden model with room, alone and with the adapter
    local name=$1
    shift
    defaults "--chunks 7" "$@"
    check "$name: compiles" "$DOPPLERC" "$golden" -o a.plan --quiet --target lavapipe --kv f32 --adapters 3 --rank 5 "${OPTIONS[@]}" || return
    check "$name: runs alone" logits a.f32 a.plan &&
        check "$name: logits alone" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" a.f32 5e-4
    check "$name: runs" logits a.f32 a.plan --lora "$golden/adapter" &&
        check "$name: logits" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits_adapter.f32" a.f32 1e-4
}
[ -z "$whole" ] || room "with room, unfused" --no-fuse
[ -z "$whole" ] || room "with room, steps that read all ranks" --chunks 64
room "with room" --sequences 4 --rows 2,4
# ran OPTION...: names of the schedules that a prompt and its answer ran, in ran.txt
ran() {
    "$EXEC" a.plan --quiet --profile p.json --tokens-file prompt -n 4 "$@" >p.txt
    sed -n 's/^\([a-z]*\)[0-9]*\(_adapted\)*: .*replay.*/\1\2/p' p.txt | sort -u | tr '\n' ' ' >ran.txt
}
check "without: profiles" ran && check "without: schedules without room" grep -qx "decode prefill " ran.txt
check "with: profiles" ran --lora "$golden/adapter" &&
    check "with: schedules with room" grep -qx "decode_adapted prefill_adapted " ran.txt
check "measures adapters in turn" "$EXEC" a.plan --quiet --bench -p 4 -n 2 -b 1,4 -r 1 \
    --lora "$golden/adapter" --lora "$golden/adapter:0.5"
check "in halves: runs" logits a.f32 a.plan --lora "$golden/adapter:0.25" --lora "$golden/adapter:0.75" &&
    check "in halves: logits" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits_adapter.f32" a.f32 5e-4
"$TOOLS/adapt" "$golden" one 5 1 - 0.2 >/dev/null && "$TOOLS/adapt" "$golden" two 3 2 mlp 0.2 >/dev/null
for seed in 1 ${whole:+2 3}; do
    check "mixtures of adapters, seed $seed" "$TOOLS/adapters" a.plan $seed "$golden/adapter" one two
done
"$TOOLS/adapt" "$golden" large 6 3 >/dev/null
check_fails "a larger rank" 1 "a rank of 6, and the plan has room for 5" logits a.f32 a.plan --lora large
check_fails "one too many" 1 "the plan has room for 3 adapters" logits a.f32 a.plan --lora one --lora one --lora two --lora two
"$DOPPLERC" "$golden" -o none.plan --quiet --target lavapipe --chunks 7 --kv f32
check_fails "no room" 1 "the plan has no room for adapters" logits a.f32 none.plan --lora one

# Workgroups that wait for others of their dispatch, which come first: here they run one after another.  A step of a few rows
# with adapters has no more dispatches than one without.
printf '%s\n' "base: nvidia-hopper" "name: waits" "cores: 4" "subgroup: 8" "max_workgroup: 64" "persistent: 64" "shared_bytes: 32768" \
    "caps: [f16_storage, f16_math, i8_storage, subgroup]" "schedule: {wait_least: 64}" >waits.yaml
alone() { LP_NUM_THREADS=1 "$@"; }
check "waits: compiles" "$DOPPLERC" "$golden" -o w.plan --quiet --target waits.yaml --chunks 7 --kv f32 --adapters 3 --rank 5 \
    --sequences 4 --rows 2,4 --report >report.txt
for step in rows2 rows4; do
    check "waits: as many dispatches of $step" [ "$(sed -n "s/^$step: \([0-9]* dispatches per layer\).*/\1/p" report.txt)" = \
        "$(sed -n "s/^${step}_adapted: \([0-9]* dispatches per layer\).*/\1/p" report.txt)" ]
done
[ -n "$whole" ] || # whose other steps take a device's compiler long
    check "waits: compiles for one" "$DOPPLERC" "$golden" -o w.plan --quiet --target waits.yaml --chunks 7 --kv f32 --adapters 3 --rank 5
[ -z "$whole" ] || { check "waits: runs alone" alone logits a.f32 w.plan &&
    check "waits: logits alone" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" a.f32 5e-4; }
for chunk in 7 ${whole:+1}; do
    check "waits: runs, chunks of $chunk" alone logits a.f32 w.plan --lora "$golden/adapter" --ordering barriers --chunk $chunk &&
        check "waits: logits, chunks of $chunk" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits_adapter.f32" a.f32 5e-4
done
[ -z "$whole" ] || check "waits: mixtures of adapters" alone "$TOOLS/adapters" w.plan 1 "$golden/adapter" one two

# Control vectors: loaded as merged, alone, scaled, together, beside an adapter, in one rank and in several.
vector() { python3 "$SRC/tests/tools/control_vector.py" "$@"; }
# controls NAME PLAN MERGING LOADING BOUND
controls() {
    check "$1: compiles" "$DOPPLERC" "$golden" -o m.plan --quiet --target lavapipe --chunks 7 --kv f32 $3 &&
        check "$1: runs merged" logits m.f32 m.plan && check "$1: runs loaded" logits r.f32 "$2" $4 &&
        check "$1: loaded as merged" "$TOOLS/expect" logits "$golden/expected.json" . m.f32 r.f32 "$5"
}
if ! command -v python3 >/dev/null; then
    skip "control vectors" "there is no python3"
else
    vector calm.gguf 0,1 64 1 0.3 && vector loud.gguf 1 64 2 20
    controls "two control vectors" a.plan "--control-vector calm.gguf:0.5 --control-vector loud.gguf:-0.3" \
        "--control-vector calm.gguf:0.5 --control-vector-scaled loud.gguf:-0.3" 5e-5
    check "and they do something" sh -c '! "$@" >/dev/null 2>&1' sh "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" r.f32 1e-2
    controls "one layer of it, with an adapter" a.plan "--control-vector calm.gguf --control-vector-layers 0-0 --lora $golden/adapter" \
        "--control-vector calm.gguf --control-vector-layer-range 0-0 --lora $golden/adapter" 5e-4
    if [ -n "$whole" ]; then
        "$DOPPLERC" "$golden" -o narrow.plan --quiet --target lavapipe --chunks 7 --kv f32 --adapters 1 --rank 1
        controls "one rank" narrow.plan "--control-vector loud.gguf" "--control-vector loud.gguf" 5e-3
    fi
    vector wide.gguf 1 65 2 1 && vector deep.gguf 2 64 2 1
    check_fails "of another width" 1 "64 of F32 expected: the control vector is of another model" logits a.f32 a.plan --control-vector wide.gguf
    check_fails "of more layers" 1 "direction.2 is behind the 2 layers" logits a.f32 a.plan --control-vector deep.gguf
    check_fails "of none" 1 "prompt: error: not a GGUF file" logits a.f32 a.plan --control-vector prompt
    check_fails "no room for it" 1 "the plan has no room for adapters" logits a.f32 none.plan --control-vector calm.gguf
    check_fails "layers that are none" 2 "--control-vector-layer-range 5: expected layers" logits a.f32 a.plan \
        --control-vector calm.gguf --control-vector-layer-range 5
fi

# Families: loaded as merged by hand.
for model in mamba2 ${whole:+qwen3 gemma3 mixtral}; do
    word=- && [ $model != mixtral ] || word=self_attn
    "$TOOLS/adapt" "$SRC/tests/golden/$model" own 4 5 $word >/dev/null
    "$TOOLS/expect" tokens "$SRC/tests/golden/$model/expected.json" . >prompt
    check "$model: compiles" "$DOPPLERC" own/merged -o m.plan --quiet --target lavapipe --chunks 7 --kv f32 &&
        check "$model: compiles with room" "$DOPPLERC" "$SRC/tests/golden/$model" -o r.plan --quiet \
            --target lavapipe --chunks 7 --kv f32 --adapters 2 --rank 4 &&
        check "$model: runs merged" logits m.f32 m.plan && check "$model: runs loaded" logits r.f32 r.plan --lora own &&
        check "$model: loaded as merged" "$TOOLS/expect" logits "$SRC/tests/golden/$model/expected.json" . m.f32 r.f32 5e-3
    rm -rf own
done
finish
