# doppler-exec --check: every kernel of golden models, for profiles with less and less, agrees with the interpreter; a plan
# whose graphs say something else than its kernels do is noticed.  With the argument `whole` (the long form) more models for each.
. "$(dirname "$0")/../lib.sh"
golden=$SRC/tests/golden
whole=${1:-}

cat >subgroup8.yaml <<'END'
base: tier1
name: tier1-subgroup8
subgroup: 8
END

# What a GPU gets, with the subgroups of a software device.
cat >gpu.yaml <<'END'
base: nvidia-hopper
name: gpu-subgroup8
subgroup: 8
max_workgroup: 256
persistent: 0
shared_bytes: 32768
caps: [f16_storage, f16_math, i8_storage, subgroup, int_dot]
END

# summed PLAN: --check says ok of every kernel, and ends with how many they were.
summed() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q "^\([0-9]*\) of \1 kernels agree .*: [1-9][0-9]* values compared\$" &&
        [ "$(grep -c '^ok ' checked)" -eq "$(tail -n 1 checked | cut -d ' ' -f 1)" ]
}

# agrees NAME OPTION...: compiles the model and checks its kernels.  Few tokens at once: software devices take long to
# compile large tiles.
agrees() {
    local name=$1 model=$2
    shift 2
    defaults "--chunks 3" "$@"
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet "${OPTIONS[@]}" &&
        check "$name: kernels agree" summed "$name.plan"
}

[ -z "$whole" ] || agrees gemma3-tier1 "$golden/gemma3" --target subgroup8.yaml
agrees qwen3-tier2 "$golden/qwen3" --target tier2
# Rows in blocks of one expert each, and the choice of experts before them.
agrees mixtral-experts "$golden/mixtral" --target subgroup8.yaml --chunks 8
# The same for activations in 8 bits, and weights in pieces.
printf 'base: lavapipe\nint_dot: prefer\nmax_alloc: 16384\n' >integers.yaml
[ -z "$whole" ] || agrees mixtral-integers "$golden/mixtral" --target integers.yaml --ctx 64 --quant q8_0
[ -z "$whole" ] || agrees demo-gpu "$SRC/examples/shakespeare-gemma3" --target gpu.yaml --ctx 512 --quant ffn=q4_0
agrees gemma3-gpu "$golden/gemma3" --target gpu.yaml --ctx 64 --quant ffn=q4_0
if [ -n "$whole" ]; then
    agrees qwen3-tier1 "$golden/qwen3" --target subgroup8.yaml
    agrees gemma3-tier2 "$golden/gemma3" --target tier2
    agrees gemma3-tier3 "$golden/gemma3" --target tier3 --kv f32
    agrees qwen3-tier3 "$golden/qwen3" --target tier3 --kv f32
    agrees llama-unfused "$golden/llama" --target subgroup8.yaml --no-fuse
    agrees llama-act-f16 "$golden/llama" --target tier2 --act f16
    agrees deepseek_v3-act-f16 "$golden/deepseek_v3" --target tier2 --act f16 --ctx 40 --chunks 1
    # States of many rows stay within f16.
    agrees zamba2-act-f16 "$golden/zamba2" --target tier2 --act f16 --ctx 70 --chunks 32
fi
# Views of values that stay inside a kernel, and heads that one stores and reads again.
[ -z "$whole" ] || agrees qwen3_5-act-f16 "$golden/qwen3_5" --target tier2 --act f16 --ctx 40 --chunks 2
# Far into a cache: the driver ends loops after 65,535 turns (loop_trips of the target).
[ -z "$whole" ] || agrees gemma2-cpu "$golden/gemma2" --target lavapipe --ctx 20000
# A cache whose rows have keys and values, both read through views; of steps of one row below.
[ -z "$whole" ] || agrees deepseek_v3-cpu "$golden/deepseek_v3" --target lavapipe --ctx 40
# Steps of one row by the kernels of several.
agrees gemma3-invariant "$golden/gemma3" --invariant --ctx 40
# Halves that a kernel of few rows makes by itself.
agrees llama-few-act-f16 "$golden/llama" --target gpu.yaml --act f16 --ctx 40
# CPU devices with so many cores that some workgroups have no rows of a head; with a target that has persistent dispatches, whose
# count the last kernel keeps; and without 64-bit integers.
printf 'base: lavapipe\ncores: 132\n' >cores.yaml
printf 'base: lavapipe\npersistent: 64\n' >persistent.yaml
printf 'base: lavapipe\ncaps: [f16_storage, f16_math, i8_storage, subgroup, int_dot, texels]\n' >words.yaml
[ -z "$whole" ] || agrees deepseek_v3-cores "$golden/deepseek_v3" --target cores.yaml --ctx 40 --chunks 1
# Positions that are chosen among many: more than a workgroup has invocations, and with splits of their list.
[ -z "$whole" ] || agrees glm_moe_dsa-far "$golden/glm_moe_dsa" --target gpu.yaml --ctx 600 --chunks 2
[ -z "$whole" ] || agrees llama-cpu-persistent "$golden/llama" --target persistent.yaml --ctx 40 --chunks 1
[ -z "$whole" ] || agrees llama-cpu-words "$golden/llama" --target words.yaml --ctx 40 --chunks 1

# The graph says that an epsilon is 2^34 times what the kernel uses.
if check "plan with another graph: made" "$TOOLS/edit_plan" qwen3-tier2.plan other.plan 'p-17' 'p+17'; then
    status=0
    "$EXEC" other.plan --check >out 2>err || status=$?
    if [ $status -eq 1 ] && grep -q '^MISS' out && grep -q 'kernels miss' err &&
        [ "$(grep -c '^ok ' out)" -eq "$(tail -n 1 out | sed -n 's/ of .* kernels agree .*//p')" ]; then
        pass "plan with another graph: noticed"
    else
        fail "plan with another graph: noticed" "status $status"
    fi
fi
check_fails "no plan" 2 "no plan given" "$EXEC" --check
finish
