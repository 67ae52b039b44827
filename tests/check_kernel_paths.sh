# Kernel paths: every known one compiles and is recorded in the plan, several give the reference's results, rules do what
# they say, and what cannot be done is refused with what can.  The argument `whole` is the long form.
. "$(dirname "$0")/lib.sh"
golden=$SRC/tests/golden
whole=${1:-}

recorded() { # NAME MODEL
    "$DOPPLERC" "$golden/$2" --target tier1 --chunks 8 --kernel-path "$1" -o p.plan --quiet && "$EXEC" p.plan --info >info && grep -q "$1" info
}

# The longer chunk is that of golden.agreement, which has the same kernels of the same paths.
agrees() { # PATH MODEL BOUND MARGIN [CHUNK]
    "$TOOLS/expect" tokens "$golden/$2/expected.json" . >prompt &&
        "$DOPPLERC" "$golden/$2" --target lavapipe --chunks "${5:-8}" --kernel-path "$1" -o p.plan --quiet &&
        "$EXEC" p.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids --logits p.f32 \
            -n "$("$TOOLS/expect" count "$golden/$2/expected.json" .)" >p.ids &&
        "$TOOLS/expect" logits "$golden/$2/expected.json" . "$golden/$2/logits.f32" p.f32 "$3" &&
        "$TOOLS/expect" ids "$golden/$2/expected.json" . p.ids "$4"
}

# explained PATTERN OPTION...: some region of llama was explained so
explained() {
    local pattern=$1
    shift
    "$DOPPLERC" "$golden/llama" --quiet --chunks 8 "$@" >explained && grep -qE "$pattern" explained
}

# Perplexity of some held-out text by the kernels of one token.
perplexity() { # OPTION...
    "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" --target lavapipe --chunks 1 --quiet -o ppl.plan "$@" &&
        head -c 60 "$SRC/examples/shakespeare-gemma3/heldout.txt" >ppl.txt &&
        "$EXEC" ppl.plan --quiet --ppl ppl.txt --ppl-ctx 128 | sed -n 's/.*"perplexity":\([0-9.]*\).*/\1/p'
}

within_percent() { # TYPE OPTION...: with these options and 8-bit activations the perplexity changes by less than 1%, but changes
    local type=$1 a b
    shift
    a=$(perplexity --quant "$type") && b=$(perplexity --quant "$type" "$@") && echo "$a $b" >&2 &&
        awk -v a="$a" -v b="$b" 'BEGIN { d = b / a - 1; exit !(a > 1 && d != 0 && d < 0.01 && d > -0.01) }'
}

# alike PATH TARGET BOUND: the two steps give what the fused path gives, within the rounding of the expanded weights
alike() {
    local golden=$SRC/tests/golden/gemma3
    "$TOOLS/expect" tokens "$golden/expected.json" . >prompt &&
        "$DOPPLERC" "$golden" --target "$2" --chunks 8 --quant q4_k --act f32 --kv f32 -o fused.plan --quiet &&
        "$DOPPLERC" "$golden" --target "$2" --chunks 8 --kernel-path "$1" --act f32 --kv f32 -o steps.plan --quiet &&
        "$EXEC" steps.plan --disasm >steps && grep -q dequant steps &&
        for plan in fused steps; do "$EXEC" $plan.plan --quiet --tokens-file prompt -n 0 --logits $plan.f32 || return; done &&
        ! cmp -s fused.f32 steps.f32 && "$TOOLS/expect" logits "$golden/expected.json" . fused.f32 steps.f32 "$3"
}

checked() { # OPTION...
    "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" --target lavapipe --ctx 64 --chunks 2 --quiet -o check.plan "$@" &&
        "$EXEC" check.plan --quiet --check >checked && grep -qE '^ok +([a-z_0-9]*_i8|dequant)/' checked
}

for file in "$SRC"/examples/kernel-paths/*.yaml; do
    name=$(basename "$file" .yaml)
    # By default one of each kind: of those that are left out others are compiled and run below, and in golden.agreement.
    [ -n "$whole" ] || case $name in
    *-dequant-f32a* | *-int8a | *-portable-f32a | *-separate-norms-* | *-fused-f16a | f16-f* | f32-f32a | *-f32w-*) continue ;;
    esac
    check "$name: compiles and is recorded" recorded "$name" gemma3
done
# Names that manifests of published models state; a file of the six serves three of them.
for family in gemma3 llama qwen3; do
    for kind in f16-fused q4k-dequant q4k-fused; do
        for act in f16a f32a; do
            [ -n "$whole" ] || [ $kind-$act = q4k-fused-f32a ] || continue
            check "$family-$kind-$act: compiles and is recorded" recorded "$family-$kind-$act" $family
        done
    done
done
# Storage of 16 bits loses a little; everything in f32 loses nothing.
# golden.agreement and check.targets compare others with the reference, and kernels without subgroups.
[ -z "$whole" ] || check "f32-unfused-f32a: as the reference" agrees f32-unfused-f32a gemma3 5e-4 0.01 16
[ -z "$whole" ] || check "f16-portable-f32a: as the reference" agrees f16-portable-f32a gemma3 2e-2 0.1
[ -z "$whole" ] || check "f16-separate-norms-f32a: as the reference" agrees f16-separate-norms-f32a gemma3 2e-2 0.1 16
[ -z "$whole" ] || check "gemma3-f16-fused-f32a: as the reference" agrees gemma3-f16-fused-f32a gemma3 2e-2 0.1
[ -z "$whole" ] || check "llama-f16-fused-f32a: as the reference" agrees llama-f16-fused-f32a llama 2e-2 0.1
[ -z "$whole" ] || check "gemma3-f16-fused-f16a: as the reference" agrees gemma3-f16-fused-f16a gemma3 4e-2 0.2 16

check "gemma3-q4k-int8a: perplexity within 1%" within_percent q4_k --kernel-path gemma3-q4k-int8a
[ -z "$whole" ] || check "gemma3-q4k-int8a: --check" checked --kernel-path gemma3-q4k-int8a
[ -z "$whole" ] || check "q4_0: perplexity within 1%" within_percent q4_0 --force gemv=gemv_subgroup_i8
[ -z "$whole" ] || check "q8_0: perplexity within 1%" within_percent q8_0 --force gemv=gemv_i8
check "q8_0 and q6_k: --check" checked --quant attn=q8_0,ffn=q6_k --force matmul=gemv_subgroup_i8

[ -z "$whole" ] || check "gemma3-q4k-dequant-f32a: as the fused path" alike gemma3-q4k-dequant-f32a lavapipe 1e-2
[ -z "$whole" ] || check "gemma3-q4k-dequant-f32a: as the fused path, tier 2" alike gemma3-q4k-dequant-f32a tier2 1e-2
sed 's/dequant}/dequant_f32}/; s/families: .*//' "$SRC/examples/kernel-paths/q4k-dequant-f32a.yaml" >f32.yaml
check "dequant_f32: as the fused path" alike ./f32.yaml lavapipe 1e-5
[ -z "$whole" ] || check "gemma3-q4k-dequant-f16a: --check" checked --kernel-path gemma3-q4k-dequant-f16a

cat >two.yaml <<'YAML'
rules:
  - {phase: prefill, op: ffn_up, layers: 0, weights: dequant_f32}
  - {phase: prefill, op: ffn_up, layers: 0, variant: matmul_tiled}
YAML
two() {
    local options="--quiet --chunks 8 --target nvidia-hopper --quant q8_0 --kernel-path ./two.yaml"
    "$DOPPLERC" "$golden/llama" $options --explain dequant >two && [ "$(grep -c . two)" -eq 4 ] &&
        ! grep -qvE '^(prefill8|score8) @[0-9]+ L0/ffn_up: dequant ' two && "$DOPPLERC" "$golden/llama" $options --report >two &&
        grep -qE 'template.*dequant -> [^ ]+ matmul|dequant -> [^ ]+ matmul .*fuse-prologue template' two
}
check "weights: dequant where a rule says so, and in the report" two
cat >rules.yaml <<'YAML'
kv: f32
rules:
  - {phase: decode, layers: 0, op: qkv, variant: gemv}
  - {phase: prefill, fuse: off}
  - {phase: decode, layers: [1, 1-1], op: ffn_up, fuse: off}
YAML
check "one layer, one phase" explained 'decode1 @[0-9]+ L0/qkv: gemv \(asked for' --target tier1 --kernel-path rules.yaml --explain qkv
check "not the other layer" explained 'decode1 @[0-9]+ L1/qkv: gemv_subgroup' --target tier1 --kernel-path rules.yaml --explain qkv
check "prefill unfused" explained '^ +[0-9]+ .* rmsnorm *$' --target tier1 --kernel-path rules.yaml --report
check "apart: disabled" explained 'disabled' --target tier1 --kernel-path rules.yaml --report
check "named by its file" explained 'kernel path rules' --target tier1 --kernel-path ./rules.yaml --report
check "--force wins" explained 'L0/qkv: gemv_subgroup \(asked for' --target tier1 --kernel-path rules.yaml \
    --force qkv=gemv_subgroup --explain qkv

cat >int8.yaml <<'YAML'
weights: attn=q4_0,ffn=f16
int_dot: prefer
rules:
  - {phase: decode, layers: 1, op: qkv, variant: gemv_subgroup}
YAML
check "int_dot: prefer" explained 'decode1 @[0-9]+ L0/qkv: gemv_subgroup_i8 \(one token' --target tier1 --kernel-path int8.yaml --explain qkv
check "int_dot: but not where a rule says otherwise" explained 'decode1 @[0-9]+ L1/qkv: gemv_subgroup \(asked for' --target tier1 \
    --kernel-path int8.yaml --explain qkv
check "int_dot: nor for other weights" explained 'L0-1/ffn_up: gemv_subgroup \(.*no integer product' --target tier1 \
    --kernel-path int8.yaml --explain ffn_up
printf 'base: tier1\nint_dot: prefer\n' >prefer.yaml
check "a target prefers it" explained 'decode1 @[0-9]+ L0/qkv: gemv_subgroup_i8 \(one token' --target prefer.yaml --quant q8_0 --explain qkv
check "not with an f32 cache" explained 'decode1 @[0-9]+ L0/qkv: gemv_subgroup \(' --target prefer.yaml --quant q8_0 --kv f32 --explain qkv

# What the compiler leaves apart because it would take longer: layers of DeepSeek-V3's sizes (a file without values).
cat >fewest.yaml <<'YAML'
rules:
  - {phase: decode, op: q+q_up, fuse: on}
  - {phase: decode, op: attn+v_up, fuse: on}
  - {phase: decode, op: shared_down+expert_down, fuse: on}
YAML
dispatches() { # COUNT [OPTION...]: of layer 1, which has experts
    "$TOOLS/make_gguf" deepseek-v3-2 q4_0 v3.gguf empty &&
        "$DOPPLERC" v3.gguf --quiet --target nvidia-hopper --ctx 1024 --chunks 1 --emit regions "${@:2}" >regions &&
        [ "$(awk '/^region .* argmax/ { exit } /^region .* %L1\./ { n++ } END { print n }' regions)" -eq "$1" ]
}
check "10 dispatches where the compiler decides" dispatches 10
check "fuse: on joins pairs: 7 dispatches" dispatches 7 --kernel-path fewest.yaml

# What costs decide against is joined where a rule says so: the embedding's rows, which the residual needs too, computed again.
joined() { # MODEL TARGET
    echo 'rules: [{phase: prefill, op: embed+qkv, fuse: on}]' >joined.yaml
    "$TOOLS/expect" forced "$golden/$1/expected.json" . >forced &&
        "$DOPPLERC" "$golden/$1" --target "$2" --kv f32 --chunks 8 --quiet -o joined.plan --kernel-path joined.yaml &&
        "$DOPPLERC" "$golden/$1" --target "$2" --kv f32 --chunks 8 --quiet --kernel-path joined.yaml --explain embed+qkv >explained &&
        ! grep -q 'not joined' explained && grep -q '^prefill8 .*joined by fuse-' explained &&
        "$TOOLS/agree" joined.plan forced 5e-4 "$golden/$1/logits.f32"
}
check "fuse: on against costs: the same logits" joined llama lavapipe
echo 'rules: [{op: silu+mul, fuse: on}]' >anyway.yaml
check "fuse: on of what is joined anyway" explained 'joined by' --target tier1 --kernel-path anyway.yaml --explain silu+mul

refused() { # NAME STATUS TEXT OPTION...
    local name=$1 status=$2 text=$3
    shift 3
    check_fails "$name" "$status" "$text" "$DOPPLERC" "$golden/llama" --quiet -o x.plan "$@"
}
bad() { # NAME TEXT LINE...
    local name=$1 text=$2
    shift 2
    printf '%s\n' "$@" >"$name.yaml"
    refused "$name" 1 "$text" --target tier1 --kernel-path "$name.yaml"
}
refused "missing capability" 1 "needs subgroup (subgroup basic, vote, ballot, shuffle and arithmetic operations), which target \
tier2 lacks; possible: " --target tier2 --force qkv=gemv_subgroup
refused "no integer products" 1 "gemv_subgroup_i8 can be used nowhere here: some weights here have no integer product; possible: " \
    --target tier1 --quant f16 --force qkv=gemv_subgroup_i8
refused "no packed dot products" 1 "int_dot: prefer needs int_dot (packed 4x8 integer dot products), which target tier2 lacks" \
    --target tier2 --kernel-path gemma3-q4k-int8a
refused "wrong template" 1 "gemv is a kernel for gemv regions, which none of these is; possible: attention_subgroup, attention, " \
    --target tier1 --force attn=gemv
# What cannot be made is refused when it is asked for, not when it is generated, and never left out of the result.
echo 'rules: [{phase: decode, op: attn, variant: attention_rows}]' >unmerged.yaml
refused "splits are not merged" 1 "attention_rows can be used nowhere here: it does not merge the splits of the cache; possible: " \
    --target nvidia-hopper --kernel-path unmerged.yaml
echo 'rules: [{phase: decode, op: attn, variant: attention_coop}]' >split.yaml
refused "a split cache" 1 "attention_coop can be used nowhere here: the cache is split; possible: " \
    --target nvidia-hopper --kernel-path split.yaml
refused "no such op" 2 "--force zzz=gemv: no region here is zzz" --target tier1 --force zzz=gemv
refused "no such kernel" 2 "no kernel zzz; known: dequant elementwise" --target tier1 --force qkv=zzz
refused "no such path" 2 "unknown kernel path zzz; known: {gemma2-,gemma3-,}f16-f16a{,-online} " --target tier1 --kernel-path zzz
refused "no such family" 2 "unknown kernel path gemma-q4k-fused-f32a; known: " --target tier1 --kernel-path gemma-q4k-fused-f32a
refused "not a family of this path" 2 "unknown kernel path llama-q4k-int8a; known: " --target tier1 --kernel-path llama-q4k-int8a
bad layer "layer.yaml:1: error: layers: 0-9, but the model has layers 0-1" "rules: [{layers: 0-9, op: qkv, variant: gemv}]"
bad range "layers: 3-1 is neither a number nor FIRST-LAST" "rules: [{layers: 3-1, op: qkv, variant: gemv}]"
bad field "vrnt is no field of a rule; known: phase, layers, op, template, step, variant, fuse, weights, and" "rules:" "  - {op: qkv, vrnt: gemv}"
bad int "int_dot: maybe is not known; known: allow, prefer, off" "int_dot: maybe"
bad dequant-word "weights: dequan is not known; known: dequant, dequant_f32, fused" "rules: [{phase: prefill, weights: dequan}]"
bad dequant-decode "a rule that says weights says phase: prefill too: one token reads each weight once" "rules: [{weights: dequant}]"
bad dequant-nothing "weights: dequant finds no matmul o of several tokens whose weights are quantized" \
    "rules: [{phase: prefill, op: o, weights: dequant}]"
bad top "fusee is no field of a kernel path" "fusee: off"
bad pair "a rule for a pair A+B says fuse and nothing else but a phase; layers as L0-3/A" \
    "rules: [{op: q+k, fuse: on, variant: gemv}]"
for label in L0/qkv L1/qkv L0-1/qkv; do
    bad beside-${label//\//-} "layers stands beside op $label, which names its layers: leave one of them out" \
        "rules: [{op: $label, layers: 0, variant: gemv}]"
done
bad past "past.yaml:1: L0-9/qkv, but the model has layers 0-1" "rules: [{op: L0-9/qkv, fuse: off}]"
bad past-pair "past-pair.yaml:1: L2/qkv, but the model has layers 0-1" "rules: [{op: embed+L2/qkv, fuse: off}]"
bad turned "L1-0/qkv: the first layer comes after the last" "rules: [{op: L1-0/qkv, fuse: off}]"
bad no-layers "layers: an empty list is about no layer" "rules: [{op: qkv, layers: [], variant: gemv}]"
bad twice "twice.yaml:3: error: kv is given twice, first on line 1" "kv: f16" "activation: f16" "kv: f32"
bad twice-rule "twice-rule.yaml:2: error: op is given twice, first on line 2" "rules:" "  - {op: qkv, op: o, variant: gemv}"
bad other-family "no region here is router" "rules: [{op: router, fuse: off}]"
bad not-adjacent "not-adjacent.yaml:1: no head here reads what a embed makes" "rules: [{op: embed+head, fuse: on}]"
bad cannot-join "cannot-join.yaml:1: fuse: on cannot join ffn_up and ffn_down: reduction-barrier, the consumer needs a whole row" \
    "rules: [{op: ffn_up+ffn_down, fuse: on}]"
bad never-joined "never-joined.yaml:1: fuse: off changes nothing: o and ffn_up are not joined without it either: reduction-barrier" \
    "rules: [{op: o+ffn_up, fuse: off}]"
bad not-here "not-here.yaml:1: fuse: off changes nothing: embed and qkv are not joined without it either: multiple-readers" \
    "rules: [{phase: prefill, op: embed+qkv, fuse: off}]"
bad undoes-nothing "fuse: on changes nothing: no earlier fuse: off is about qkv alone; a pair to be joined is op: A+B" \
    "rules: [{op: qkv, fuse: on}]"
bad again "again.yaml:2: fuse: off changes nothing: the dispatches of qkv are the same without it" \
    "rules:" "  - {op: qkv, fuse: off}" "  - {op: qkv, fuse: off}"
bad all-off "all-off.yaml:2: fuse: off changes nothing: the dispatches of qkv are the same without it" \
    "fuse: off" "rules: [{op: qkv, fuse: off}]"
bad outvoted "outvoted.yaml:2 has no effect: outvoted.yaml:3, which comes later, decides wherever it would" \
    "rules:" "  - {op: qkv, variant: gemv}" "  - {op: qkv, variant: gemv_subgroup}"
bad nothing-expanded "weights: fused changes nothing: no earlier weights: dequant is about head" \
    "rules: [{phase: prefill, op: head, weights: fused}]"
bad empty-rule "a rule says variant, fuse, weights or fields of a tile" "rules: [{op: qkv}]"
bad families "families: expected a list" "families: gemma3"
bad phase "phase: train is not known; known: decode, prefill, both" "rules: [{phase: train, fuse: off}]"
bad variant "variant.yaml:1: no kernel zzz; known: dequant" "rules: [{op: qkv, variant: zzz}]"
bad switch "fuse: maybe is neither on nor off" "fuse: maybe"
bad type "kv: q4 is not known; known: f16, f32" "kv: q4"
bad list "rules: expected a list" "rules: gemv"
bad scalar "a kernel path is a mapping of fields" "gemv"
bad yaml "not YAML" "rules: [{"

if [ -d "$SHARED/models/shakespeare-gemma3-rdrr" ]; then
    manifest() {
        "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" --target tier1 --chunks 8 --quiet --report \
            --kernel-path "$SHARED/models/shakespeare-gemma3-rdrr/manifest.json" >out && grep -q "kernel path manifest" out
    }
    check "an RDRR manifest" manifest
else
    skip "an RDRR manifest" "no data beside the project"
fi

# Manifests: a named path is followed as --kernel-path follows it, and what else a manifest asks for are rules.
listed() { # MEMBERS [OPTION...]: the plan of a manifest with these members
    "$TOOLS/hf_to_rdrr" "$golden/gemma3" rdrr "$1" && "$DOPPLERC" rdrr --target tier1 --chunks 8 --quiet --emit plan "${@:2}" >listing
}
check "a manifest without a path" listed '{}' && mv listing default
named() { # NAME
    listed "{\"optimizations\": {\"kernelPath\": \"$1\"}}" && mv listing named && listed '{}' --kernel-path "$1" &&
        cmp named listing && ! cmp -s named default
}
for name in f32-unfused-f32a gemma2-q4k-dequant-f16a gemma3-q4k-dequant-f32a-nosubgroups ${whole:+gemma2-q4k-fused-f16a-wg128 \
    gemma3-f16-f16a-online gemma3-q4k-dequant-f32w-f32a-online}; do
    check "a manifest names $name" named "$name"
done
overruled() {
    listed '{"optimizations": {"kernelPath": "zzz"}}' --kernel-path f32-unfused-f32a && mv listing named &&
        listed '{}' --kernel-path f32-unfused-f32a && cmp named listing
}
check "--kernel-path overrules a manifest's" overruled
asks() { # MEMBERS OPTION...: the manifest asks for what the options do
    listed "$1" && mv listing asked && listed '{}' "${@:2}" && cmp asked listing && ! cmp -s asked default
}
check "preferF16KV: false" asks '{"runtimeOptimizations": {"preferF16KV": false}}' --kv f32
check "forceKernels" asks '{"runtimeOptimizations": {"forceKernels": {"matmul": "gemv"}}}' --force matmul=gemv
expands() {
    listed '{"runtimeOptimizations": {"preferFusedDequant": false}}' --quant q4_k && grep -q ' dequant/' listing &&
        listed '{"runtimeOptimizations": {"preferFusedDequant": true}}' --quant q4_k && ! grep -q ' dequant/' listing
}
check "preferFusedDequant" expands
asks_wrong() { # NAME TEXT MEMBERS
    "$TOOLS/hf_to_rdrr" "$golden/gemma3" rdrr "$3" || fail "$1"
    check_fails "$1" 1 "$2" "$DOPPLERC" rdrr --target tier1 --quiet -o x.plan
}
asks_wrong "a manifest names no known path" "rdrr/manifest.json: error: optimizations.kernelPath: unknown kernel path zzz; known: \
{gemma2-,gemma3-,}f16-f16a{,-online} " '{"optimizations": {"kernelPath": "zzz"}}'
asks_wrong "forceKernels: no such kernel" "rdrr/manifest.json: runtimeOptimizations.forceKernels.matmul: no kernel zzz; known: dequant" \
    '{"runtimeOptimizations": {"forceKernels": {"matmul": "zzz"}}}'
asks_wrong "forceKernels: no such op" "rdrr/manifest.json: runtimeOptimizations.forceKernels.zzz: no region here is zzz" \
    '{"runtimeOptimizations": {"forceKernels": {"zzz": "gemv"}}}'
asks_wrong "forceKernels: not here" "forceKernels.attn: gemv is a kernel for gemv regions, which none of these is; possible: attention" \
    '{"runtimeOptimizations": {"forceKernels": {"attn": "gemv"}}}'
bad forms "forms: expected a list" "forms: online"
refused "not a form of this path" 2 "unknown kernel path gemma3-q4k-fused-f32a-online; known: " --target tier1 \
    --kernel-path gemma3-q4k-fused-f32a-online

# --tune: what is measured here is used here, and nowhere else.
tuned() {
    "$DOPPLERC" "$golden/llama" --tune=head --target lavapipe --chunks 1 -o tuned.yaml 2>lines &&
        grep -qE '^decode1 head: [0-9.]+ us, best of ([2-9]|1[0-9]) ways [0-9.]+ us' lines &&
        head -1 tuned.yaml | grep -q '^measured: {device: "llvmpipe'
}
# The kernel that is measured is one that reads its matrix through a view.
viewed() {
    "$DOPPLERC" "$golden/llama" --target lavapipe --chunks 1 --tuning "$1" --emit plan --quiet >listing &&
        grep -A 1 ' gemv_rows/head' listing | grep -q ' w\.lm_head=[^ ]*/view'
}
check "--tune measures the kernels of an op" tuned && check "--tune measures views" viewed tuned.yaml &&
    printf '  - {op: head, template: gemv, phase: decode, step: 1, variant: gemv_subgroup, lanes: 4}\n' >>tuned.yaml &&
    check "--tuning takes it" explained 'decode1 @[0-9]+ head: gemv_subgroup \(asked for.* lanes=4 ' \
        --target lavapipe --tuning tuned.yaml --explain head &&
    check "so does --kernel-path: it is one format" \
        explained 'decode1 @[0-9]+ head: gemv_subgroup \(asked for.* lanes=4 ' --target lavapipe --kernel-path tuned.yaml --explain head
printf '%s\n' "rules:" "  - {op: head, variant: gemv_subgroup, lanes: 4}" "  - {op: qkv, variant: matmul_coop}" >measured.yaml
check "--tuning: what cannot be followed is left out" explained 'decode1 @[0-9]+ head: gemv_subgroup \(asked for.* lanes=4 ' \
    --target tier1 --tuning measured.yaml --explain head
printf 'rules: [{phase: decode, op: head, variant: gemv}]\n' >over.yaml
# What was measured of one kernel is nothing for another one.
check "a kernel path wins over --tuning" explained 'decode1 @[0-9]+ head: gemv \(asked for.* lanes=8 ' \
    --target tier1 --tuning measured.yaml --kernel-path over.yaml --explain head
check "--force wins over both" explained 'decode1 @[0-9]+ head: gemv_subgroup \(asked for' \
    --target tier1 --tuning measured.yaml --kernel-path over.yaml --force head=gemv_subgroup --explain head
printf '%s\n' "rules:" "  - {op: qkv, wg: 64}" "  - {op: qkv, phase: decode, step: 1, template: gemv, rows: 2}" >tiles.yaml
check "a kernel path sets tiles" explained 'decode1 @[0-9]+ L0/qkv: gemv_subgroup \(one token.* tile wg=64 lanes=[0-9]+ rows=2 ' \
    --target tier1 --kernel-path tiles.yaml --explain qkv
bad step "step.yaml:1: error: step: 0 is no number from 1 to 4096" "rules: [{op: qkv, step: 0, variant: gemv}]"
# Every tile is checked after all rules: the field, its bound, the rule's place and the region are in one line.
tile() { # NAME TEXT TARGET RULE...
    local name=$1 text=$2 target=$3
    shift 3
    { echo "rules:" && printf '  - {%s}\n' "$@"; } >"$name.yaml"
    refused "$name" 1 "$name.yaml:$(($# + 1)): $text" --target "$target" --ctx 64 --chunks 8 --kernel-path "$name.yaml"
}
o="phase: decode, op: o"
tile lanes "lanes must be a power of two between 1 and 256, not 7: gemv_subgroup at L0/o on target lavapipe" lavapipe \
    "$o, variant: gemv_subgroup, lanes: 7"
tile lanes-rows "lanes must be a power of two between 1 and 256, not 3: gemv_subgroup at L0/o on target tier1" tier1 "$o, lanes: 3, rows: 3"
tile lanes-plain "lanes must be a power of two between 1 and 256, not 5: gemv at L0/o on target tier1" tier1 "$o, variant: gemv, lanes: 5"
tile lanes-tier3 "lanes must be a power of two between 1 and 128, not 5: gemv at L0/o on target tier3" tier3 "$o, lanes: 5"
tile many-lanes "lanes must be a power of two between 1 and 256, not 300" tier1 "$o, lanes: 300"
tile cpu-lanes "lanes is not a field of the tile of gemv_rows, whose fields are wg, rows, loops, bk" lavapipe "$o, lanes: 1000"
tile cpu-wg "wg must be 8 (a subgroup), not 64: gemv_rows at L0/o" lavapipe "$o, wg: 64"
tile tiled-wg "wg must be 32 (bm / tm x bn / tn), not 64: matmul_tiled at L0/" lavapipe \
    "phase: prefill, op: matmul, variant: matmul_tiled, bm: 16, bn: 32, bk: 32, tm: 4, tn: 4"
tile large-wg "wg must be a multiple of 32 between 32 and 256, not 4096: gemv_subgroup at L0/o" tier1 "$o, wg: 4096"
tile other-field "bm is not a field of the tile of gemv_subgroup, whose fields are wg, lanes, rows, loops, unroll, stage" tier1 "$o, bm: 64"
tile odd-wg "wg must be a multiple of 32 between 32 and 256, not 100" tier1 "$o, wg: 100, unroll: 99, rows: 77"
tile much-code "rows x unroll must be at most 128 here, not 7623: gemv_subgroup at L0/o" tier1 "$o, wg: 128, unroll: 99, rows: 77"
tile units "bm must be 16 (all tokens in whole matrices), not 3: matmul_coop_own at L0/" nvidia-hopper "phase: prefill, op: qkv, bm: 3"
tile two-rules "wg must be a multiple of 64 between 64 and 256, not 96: gemv_subgroup at L0/o" tier1 "$o, lanes: 64" "$o, wg: 96"
# The rule that states the field that is wrong is the one that is named, and one that later rules outdo is refused, too.
printf '%s\n' "rules:" "  - {$o, lanes: 8}" "  - {$o, lanes: 16}" >outdone.yaml
refused "outdone" 1 "outdone.yaml:2: lanes has no effect: outdone.yaml:3, which comes later, decides wherever it would" \
    --target tier1 --kernel-path outdone.yaml
# A tile of one variant is nothing for regions of others, and is right for its own.
printf '%s\n' "kv: f32" "rules:" \
    "  - {phase: prefill, op: matmul, variant: matmul_tiled, wg: 64, bm: 16, bn: 32, bk: 32, tm: 2, tn: 4}" >own.yaml
own_tiles() {
    "$TOOLS/expect" forced "$golden/llama/expected.json" . >forced &&
        "$DOPPLERC" "$golden/llama" --target lavapipe --chunks 8 --kernel-path own.yaml --emit regions --quiet >regions &&
        grep -q 'using matmul_tiled wg=64 bm=16 bn=32 bk=32 tm=2 tn=4' regions && ! grep 'using gemv' regions | grep -qE 'wg=64|b[mn]=[^1]' &&
        "$DOPPLERC" "$golden/llama" --target lavapipe --chunks 8 --kernel-path own.yaml --quiet -o own.plan &&
        "$TOOLS/agree" own.plan forced 5e-4 "$golden/llama/logits.f32"
}
check "a tile is for its variant only, and gives the reference's logits" own_tiles
bad nothing-to-join "fuse: on finds nothing to join: qkv and attn are joined without it where they can be, and elsewhere not: tile-mismatch" \
    "rules:" "  - {phase: decode, op: qkv+attn, fuse: on}"
# Measured rules were legal elsewhere: here they are left out, with one note.
skipped() { # NOTE LINE...
    local note=$1
    shift
    printf '%s\n' "rules:" "$@" >skipped.yaml
    "$DOPPLERC" "$golden/llama" --chunks 8 --target tier1 --tuning skipped.yaml --explain o >explained 2>lines &&
        [ "$(grep -c note: lines)" -eq 1 ] && grep -qF "dopplerc: note: skipped.yaml:2: $note" lines &&
        grep -qE 'decode1 @[0-9]+ L0-1/o: gemv_subgroup .* lanes=8 ' explained
}
check "--tuning: an illegal tile is skipped" skipped \
    "lanes must be a power of two between 1 and 256, not 512: gemv_subgroup at L0/o on target tier1; skipped, as it was measured elsewhere" \
    "  - {op: o, template: gemv, lanes: 512}"
check "--tuning: so are two, and a field that the kernel lacks" skipped \
    "lanes must be a power of two between 1 and 256, not 3: gemv_subgroup at L0/o on target tier1; skipped, with 1 more rules" \
    "  - {op: o, template: gemv, lanes: 3}" "  - {op: qkv, template: gemv, bq: 2}"
# Fields that were measured give way to what is asked for.
printf 'rules: [{op: o, template: gemv, lanes: 64, wg: 256}]\n' >wide.yaml
printf 'rules: [{op: o, template: gemv, wg: 32}]\n' >narrow.yaml
check "--tuning: measured fields give way" explained 'L0-1/o: gemv_subgroup .* wg=32 lanes=8 ' --target tier1 --tuning wide.yaml \
    --kernel-path narrow.yaml --explain o
residual() {
    "$DOPPLERC" "$golden/llama" --target tier1 --ctx 64 --chunks 8 --quiet --report >report &&
        grep -qx '    residual+rmsnorm: done as matmul+residual and row-statistic' report
}
check "the report says where a residual's norm went" residual
bad template "template: gemw is not known" "rules: [{op: qkv, template: gemw, variant: gemv}]"
bad other-step "no region here is qkv" "rules: [{op: qkv, step: 77, wg: 64}]"
bad pair-step "a rule for a pair A+B says fuse and nothing else but a phase" "rules: [{op: o+ffn_up, fuse: off, step: 1}]"
stale() {
    "$DOPPLERC" "$golden/llama" --chunks 8 --target lavapipe --tuning "$1" --explain head >explained 2>lines &&
        grep -qx "dopplerc: $1: note: measured $2: ignored; make it again with dopplerc --tune" lines &&
        grep -qE 'decode1 @[0-9]+ head: gemv_rows ' explained
}
sed '1s/device: "/&a/' tuned.yaml >device.yaml
sed '1s/driver: "/&a/' tuned.yaml >driver.yaml
sed '1s/kernels: "/&a/' tuned.yaml >kernels.yaml
check "--tuning of another device" stale device.yaml "on another device"
check "--tuning of another driver" stale driver.yaml "with another driver"
check "--tuning of other kernels" stale kernels.yaml "with other kernels"
# --tune --target-out: the numbers of a target, measured here.
target_file() {
    "$DOPPLERC" "$golden/llama" --tune --target-out here.yaml --ctx 64 --chunks 1 --quiet && grep -q '^base: lavapipe$' here.yaml &&
        grep -q '^devices: {vendor: 0x' here.yaml && "$DOPPLERC" "$golden/llama" --target here.yaml -o here.plan --ctx 64 --quiet &&
        "$EXEC" here.plan --tokens "1 17 200 3" -n 4 --temp 0 --quiet --print-ids >ids
}
check "--tune --target-out writes a target that works" target_file
check_fails "--target-out alone" 2 "--target-out is the file of --tune" "$DOPPLERC" "$golden/llama" --target-out t.yaml
check_fails "--target-out of one op" 2 "--target-out is the file of --tune" "$DOPPLERC" "$golden/llama" --tune=head --target-out t.yaml
check_fails "--target-out and a tuning file" 2 "--target-out is the file of --tune" "$DOPPLERC" "$golden/llama" --tune --target-out t.yaml -o u.yaml
check_fails "--target-out over the model" 2 "" "$DOPPLERC" "$golden/llama/config.json" --tune --target-out "$golden/llama/config.json"
check_fails "--tune and something else" 2 "--tune writes a tuning file and nothing else: give -o FILE.yaml" \
    "$DOPPLERC" "$golden/llama" --tune -o t.yaml --report
finish
