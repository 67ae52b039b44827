# Targets: files equal the built-in rows, plans use nothing that their tier lacks, and tiers 2 and 3 (which need
# no subgroups, so that they run on lavapipe) compute what the reference computes, which golden.agreement shows by default.
# With the argument `whole` (the long form) three models for these, where by default there is one; every file against its built-in row;
# and every golden model for every target, where by default every third is compiled for one of three makers.
. "$(dirname "$0")/lib.sh"
whole=${1:-}
models="llama ${whole:+gemma3 qwen3}"

equal() { # TARGET
    "$DOPPLERC" "$SRC/tests/golden/llama" --target "$1" --chunks 8 -o built-in.plan --quiet &&
        "$DOPPLERC" "$SRC/tests/golden/llama" --target "$SRC/examples/targets/$1.yaml" --chunks 8 -o file.plan --quiet &&
        cmp built-in.plan file.plan
}

capabilities() { # DIR: of all modules in it, one a line
    for f in "$1"/*.spv; do spirv-dis --raw-id "$f" || return; done | sed -n 's/^ *OpCapability //p' | sort -u
}

lacks() { # DIR PATTERN
    capabilities "$1" >found && [ -s found ] && ! grep -E "$2" found
}

has() { # DIR PATTERN
    capabilities "$1" >found && grep -qE "$2" found
}

# Chunks as golden.check and golden.agreement have them, whose kernels are these.
logits() { # MODEL TARGET BOUND MARGIN
    local golden=$SRC/tests/golden/$1
    "$TOOLS/expect" tokens "$golden/expected.json" . >prompt && "$TOOLS/expect" forced "$golden/expected.json" . >forced &&
        "$DOPPLERC" "$golden" --target "$2" --chunks 3,16 -o run.plan --quiet &&
        "$EXEC" run.plan --quiet --tokens-file prompt -n 0 --logits run.f32 &&
        "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" run.f32 "$3" &&
        "$EXEC" run.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids \
            -n "$("$TOOLS/expect" count "$golden/expected.json" .)" >run.ids &&
        "$TOOLS/expect" ids "$golden/expected.json" . run.ids "$4"
}

kernels_for_all() { # TARGET REMAINDER
    local n=0
    for model in "$SRC"/tests/golden/*/; do
        n=$((n + 1))
        [ -n "$whole" ] || [ $((n % 9)) -eq "$2" ] || continue
        "$DOPPLERC" "$model" --target "$1" --emit glsl >kernels.glsl && [ -s kernels.glsl ] || return
    done
}

# Dispatches of each layer in steps of one token, of every family with experts.  A region is of the layer of the last value that
# it writes under a layer's name, else of the first that it computes; what makes logits is of none.
experts="deepseek_v3 ernie4_5_moe gemma4_moe glm4_moe gpt_oss granitemoehybrid llama4_text minimax_m2 mixtral olmoe qwen2_moe
    qwen3_moe qwen3_next"
at_most_seven() { # TARGET
    for model in $experts; do
        "$DOPPLERC" "$SRC/tests/golden/$model" --target "$1" --chunks 1 --emit regions --quiet || return
    done | awk '/^region @1 / { split("", n); graphs++ }
        /^region/ && !/writes [^{]*%(logits|id)/ {
            split($0, half, "{")
            layer = match(half[1], /.*%L[0-9]+\./) ? half[1] : half[2]
            if (layer == half[1]) sub(/.*%L/, "", layer); else sub(/^[^L]*%L/, "", layer)
            if (layer ~ /^[0-9]+\./ && ++n[layer + 0] > most) most = n[layer + 0]
        }
        END { print graphs " graphs, at most " most + 0; exit !(graphs == 26 && most > 5 && most <= 7) }'
}

# Families whose layers lib_golden.sh bounds on lavapipe, where joining depends on what a GPU's kernels take as well.
on_hopper() { # MODEL MOST
    "$DOPPLERC" "$SRC/tests/golden/$1" --target nvidia-hopper --chunks 1 --report >report 2>/dev/null || return
    local n
    n=$(sed -n 's/^decode1: \([0-9]*\) dispatches per layer.*/\1/p' report)
    [ -n "$n" ] && [ "$n" -le "$2" ]
}
while read -r model most; do
    check "$model, nvidia-hopper: at most $most dispatches per layer" on_hopper "$model" "$most"
done <<END
cohere2 3
gpt_neox 4
glm4_moe 6
falcon_h1 7
END

remainder=0
for target in tier1 tier2 tier3 lavapipe nvidia-hopper nvidia-ampere nvidia-ada nvidia-blackwell amd-rdna3 intel-xe2; do
    [ -z "$whole" ] && [ $target != tier3 ] || check "$target.yaml is the built-in row" equal $target
    case $whole$target in
    whole* | nvidia-hopper | amd-rdna3 | intel-xe2)
        check "$target: kernels for golden models" kernels_for_all $target $remainder
        remainder=$((remainder + 1))
        ;;
    esac
    [ -z "$whole" ] && [ $target != nvidia-hopper ] ||
        check "$target: at most 7 dispatches per layer with experts" at_most_seven $target
done
# Targets that begin with one of these.
for target in adreno amd-cdna amd-rdna2 amd-rdna4 apple intel-xe-hpg intel-xe-hpg-xmx intel-xe-lpg mali nvidia-orin powervr v3d; do
    [ -z "$whole" ] && [[ $target != @(mali|nvidia-orin|powervr|v3d) ]] || check "$target.yaml is the built-in row" equal $target
    [ -z "$whole" ] || check "$target: kernels for golden models" kernels_for_all $target 0
done
for model in $models; do
    for target in tier1 tier2 tier3; do
        check "$model $target: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" --target $target --chunks 8,32 --dump-dir $model-$target --quiet
        if ! command -v spirv-dis >/dev/null; then
            skip "$model $target: capabilities" "no spirv-dis (package spirv-tools)"
            continue
        fi
        case $target in
        tier1) check "$model tier1: uses subgroups" has $model-tier1 '^GroupNonUniformArithmetic$' ;;
        tier2) check "$model tier2: no subgroups" lacks $model-tier2 '^(GroupNonUniform|CooperativeMatrix)' ;;
        tier3) check "$model tier3: no subgroups, no 16 or 8 bits" lacks $model-tier3 \
            '^(GroupNonUniform|CooperativeMatrix|Float16|Int16|Int8|Int64|StorageBuffer(8|16)|StorageUniform16|UniformAndStorage|DotProduct)' ;;
        esac
    done
    [ -n "$whole" ] || continue
    check "$model tier2: as the reference" logits $model tier2 2e-2 0.1
    check "$model tier3: as the reference" logits $model tier3 5e-4 0.01
done

# Matrix units in both forms.  SPIRV-Tools of Debian 12 do not know the KHR form (tests/unit/kernels/test_spirv_khr_matrix.c looks
# into such modules), so that only words of it are looked for here.
uses() { # FILES WORD: a module of them has the instruction whose first word is WORD (hex, little endian)
    # shellcheck disable=SC2086 # files
    od -An -v -tx4 -w4 $1 | grep -x " $2" >found
}
says() { # TARGET
    local what
    case $1 in
    nvidia-hopper) what='cooperative matrix (KHR), cooperative matrix sums of f16 (KHR) of 16x16x16$' ;;
    amd-rdna3) what='operations, cooperative matrix (KHR) of 16x16x16$' ;;
    intel-xe2) what='operations, cooperative matrix (KHR) of 8x16x16$' ;;
    intel-xe-hpg-xmx) what='operations, cooperative matrix (KHR) of 8x8x16$' ;;
    esac
    "$EXEC" "$1.plan" --info | grep '^target' | tee info | grep -q "$what"
}
for target in nvidia-hopper amd-rdna3 intel-xe2 intel-xe-hpg-xmx; do
    check "$target: compiles" "$DOPPLERC" "$SRC/tests/golden/llama" --target $target --chunks 32,128 --dump-dir $target \
        --quiet -o $target.plan
    few=matmul_coop_few
    [[ $target != intel-xe* ]] || few=matmul_coop # its matrices are not those that the others are for
    check "$target: products in the KHR form" uses "$target/*-matmul_coop-*.spv" 00071168 # OpTypeCooperativeMatrixKHR
    check "$target: products of few tokens in the KHR form" uses "$target/*-$few-*.spv" 00071168
    [ $target = intel-xe-hpg-xmx ] || # whose matrices are deeper than they have columns
        check "$target: attention in the KHR form" uses "$target/*-attention_coop-*.spv" 00071168
    check "$target: the plan says which" says $target
done

# Attention of devices that have the NV form only, which spirv-val knows: long heads and short ones, with a window and
# without, capped scores, and queries that are split in two.
printf '%s\n' "base: nvidia-hopper" "caps: [f16_storage, f16_math, i8_storage, subgroup, int_dot, coop_nv, int64]" >nv.yaml
for model in gemma3_hd256 gemma2 gemma4; do
    check "$model, NV form: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" --target nv.yaml --chunks 32,512 \
        --dump-dir nv-$model -o nv.plan --quiet
    check "$model, NV form: attention" uses "nv-$model/*-attention_coop-*.spv" 000614ee
    if ! command -v spirv-val >/dev/null; then
        skip "$model, NV form: valid" "no spirv-val (package spirv-tools)"
        continue
    fi
    for f in nv-"$model"/*-attention_coop-*.spv; do
        check "$f: valid" spirv-val --target-env vulkan1.2 "$f"
    done
done

# Products of a few sequences, of floats and of blocks: each kernel reads what its own template and the weights' types declare.
for quant in f16 q4_0; do
    check "12 and 64 rows of $quant, NV form: compiles" "$DOPPLERC" "$SRC/tests/golden/llama" --target nv.yaml --sequences 64 \
        --rows 12,64 --chunks 8 --quant $quant --dump-dir nv-rows-$quant -o nv.plan --quiet
    check "12 and 64 rows of $quant, NV form: products" uses "nv-rows-$quant/*-matmul_coop_own-*.spv" 000614ee
    if command -v spirv-val >/dev/null; then
        for f in nv-rows-$quant/*-matmul_coop_own-*.spv; do
            check "$f: valid" spirv-val --target-env vulkan1.2 "$f"
        done
    fi
done

bad() { # NAME TEXT LINE...
    local name=$1 text=$2
    shift 2
    printf '%s\n' "$@" >"$name.yaml"
    check_fails "$name" 1 "$text" "$DOPPLERC" "$SRC/tests/golden/llama" --target "$name.yaml" -o x.plan --quiet
}
bad no-field "no-field.yaml:2: error: unknown field cors" "base: tier1" "cors: 3"
bad devices "devices.yaml:1: error: devices: name: expected vendor, ids, caps, matrix or cpu" "devices: {name: NVIDIA}"
bad vendor "vendor.yaml:1: error: devices: vendor: nvidia is no value of it" "devices: {vendor: nvidia}"
bad ids "ids.yaml:1: error: devices: ids: expected a number or a range as in 0x2300-0x23ff" "devices: {ids: [0x2300-0x22ff]}"
bad id-list "id-list.yaml:1: error: devices: ids: 0x2300 is no value of it" "devices: {ids: 0x2300}"
bad no-cap "no-cap.yaml:1: error: unknown capability warp; known: f16_storage" "caps: [subgroup, warp]"
bad no-number "no-number.yaml:1: error: cores: many is not a whole number from 1 to 4294967295" "cores: many"
bad caps "caps: expected a list of capabilities" "caps: subgroup"
bad caps-named "texels coop_pairs" "caps: [no]"
bad fields-named "unknown field persist; known: name base devices schedule caps subgroup" "base: tier1" "persist: 3"
bad splits "split_whole and stage_whole must be at least split_least" "base: tier1" "split_least: 256"
bad number "number.yaml:1: error: schedule: small_busy: x is not a whole number from 0" "schedule: {small_busy: x}"
bad no-number-of-it "schedule: unknown number bussy" "schedule: {bussy: 1}"
bad row "schedule: coop_direct: expected rows of 3 values" "schedule: {coop_direct: [[1, 2]]}"
bad type "schedule: coop_direct: q9 is no value 3 of its rows" "schedule: {coop_direct: [[1, 2, q9]]}"
bad tile "schedule: coop_block_tiles: 24 is no multiple of 16" "schedule: {coop_block_tiles: [[24, 64, 64, 16, 16, 0, 1, 1, any]]}"
bad narrow "schedule: coop_tiles: 8 is no multiple of 16" "schedule: {coop_tiles: [[32, 8, 64, 8, 16, 0, 1, 1, any]]}"
bad narrower "schedule: coop_tiles: 4 is no multiple of 8" "schedule: {coop_tiles: [[32, 32, 64, 4, 16, 0, 1, 1, any]]}"
bad parts "coop_block_tiles: row 1: parts of subgroups do not divide" "schedule: {coop_block_tiles: [[32, 64, 64, 48, 16, 0, 1, 1, any]]}"
bad last "coop_tiles: the last row must be of kind any" "schedule: {coop_tiles: [[32, 64, 64, 16, 16, 0, 1, 1, quant]]}"
bad purpose "small_tiles: each purpose must have a row" "schedule: {small_tiles: [[64, 128, 256, 16, 32, 2, floats]]}"
printf 'schedule: tier9\n' >like.yaml
check_fails like 2 "unknown target tier9; known: auto" "$DOPPLERC" "$SRC/tests/golden/llama" --target like.yaml -o x.plan --quiet
# A number of the section decides: without matrix units for so few rows, other kernels are made.
printf '%s\n' "base: nvidia-hopper" "schedule:" "  matrix_least_rows: 64" >small.yaml
decides() {
    for target in small.yaml nvidia-hopper; do
        "$DOPPLERC" "$SRC/tests/golden/llama" --target $target --chunks 32 --emit glsl --quiet >$target.glsl || return
    done
    ! cmp -s small.yaml.glsl nvidia-hopper.glsl
}
check "a number of a target file decides" decides
# Parts of 8 tokens are for matrices of 8 rows; where these have 16, parts have as many.
printf '%s\n' "base: intel-xe2" "schedule:" "  coop_tiles: [[32, 32, 32, 8, 16, 0, 1, 1, any]]" >eight.yaml
printf '%s\n' "base: amd-rdna3" "schedule:" "  coop_tiles: [[32, 32, 32, 8, 16, 0, 1, 1, any]]" >sixteen.yaml
tokens_of_part() { "$DOPPLERC" "$SRC/tests/golden/llama" --target "$1" --chunks 128 --emit glsl --quiet | grep -q "^#define WM $2u"; }
check "parts of 8 tokens" tokens_of_part eight.yaml 8
check "where matrices have 16 rows" tokens_of_part sixteen.yaml 16
# Attention of fewer rows in a workgroup gives the same.
printf '%s\n' "base: tier1" "subgroup: 8" "schedule:" "  attention_rows: 4" >rows.yaml
few_rows() {
    "$DOPPLERC" "$SRC/tests/golden/llama" --target rows.yaml --chunks 8 --ctx 64 --quiet -o rows.plan &&
        "$EXEC" rows.plan --trace-kernels | grep -q 'attention_subgroup' &&
        "$EXEC" rows.plan --check >checked && tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}
check "attention of fewer rows in a workgroup" few_rows
bad int-dot "int_dot: maybe is not known; known: allow, prefer, off" "int_dot: maybe"
bad matrix "coop_nv and coop_khr need matrix: 16x16x16 or 8x16x16" "base: intel-xe2" "matrix: 8x8x16"
bad no-matrix "coop_nv and coop_khr need matrix" "base: tier1" "caps: [subgroup, coop_khr]"
bad shape "matrix: expected rows x columns x depth as in 16x16x16: 16x16" "matrix: 16x16"
bad subgroup "subgroup must be a power of two" "subgroup: 12"
bad persistent "persistent must be 0" "persistent: 32"
bad no-yaml "not YAML" "caps: [subgroup"
known="known: auto adreno amd-cdna amd-rdna2 amd-rdna3 amd-rdna4 apple intel-xe-hpg-xmx intel-xe-hpg intel-xe-lpg intel-xe2 lavapipe mali"
check_fails "no such target" 2 "$known nvidia-ada nvidia-ampere nvidia-blackwell nvidia-hopper nvidia-orin powervr tier1 tier2 tier3 v3d" \
    "$DOPPLERC" "$SRC/tests/golden/llama" --target tier9 -o x.plan --quiet
check_fails "f16 cache on tier 3" 1 "lacks f16_storage (16-bit storage buffers), which a cache in f16 needs; possible: f32" \
    "$DOPPLERC" "$SRC/tests/golden/llama" --target tier3 --kv f16 -o x.plan --quiet
finish
