# Files of other tools with quantized weights, and weights quantized here, against their expected ids and logits.  By default half of
# the types, of most of them steps of one token (unit.test_weight_types has all kernels); the argument `whole` is the long form.
. "$(dirname "$0")/../lib.sh"
models=$SHARED/models
whole=${1:-}

chunk=8
compile() { # NAME MODEL [OPTION...]
    local name=$1 model=$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --ctx 256 --chunks $chunk "$@"
}

# greedy NAME FILE CASE MARGIN: generated ids of one case, equal up to the first step with a smaller margin.
greedy() {
    "$TOOLS/expect" tokens "$2" "$3" >prompt
    "$EXEC" "$1.plan" --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids \
        -n "$("$TOOLS/expect" count "$2" "$3")" >ids || true
    check "$1: ids of $3" "$TOOLS/expect" ids "$2" "$3" ids "$4"
}

for kind in q8_0 q4_k_m iq4_xs nvfp4 ${whole:+q6_k q4_0 iq3_s iq2_xs}; do
    file=$models/shakespeare-gemma3-gguf/shakespeare-gemma3-$kind
    if [ ! -e "$file.gguf" ]; then
        skip "gguf-$kind" "no $file.gguf"
        continue
    fi
    case $whole$kind in q4_k_m | whole*) chunk=8 ;; *) chunk=1 ;; esac
    compile "gguf-$kind" "$file.gguf" || continue
    types=$kind
    case $kind in
    q4_k_m) types="q4_k, q6_k" ;; # as its name says: a mixture
    q4_0) types="q4_0, q6_k" ;;   # with the embedding in 6 bits
    esac
    "$EXEC" "gguf-$kind.plan" --info >info
    check "gguf-$kind: the card names the types" grep -q "^weights *$types$" info
    # The expected ids come from kernels that also round the activations to 8 bits.
    cases="greedy.0 greedy.1 greedy.2 long_prompt"
    case $kind in iq* | nvfp4) cases=greedy.2 ;; q4_k_m) [ -n "$whole" ] || cases="greedy.2 long_prompt" ;; esac
    [ $chunk -gt 1 ] || cases=greedy.2
    for case in $cases; do
        greedy "gguf-$kind" "$file.expected_greedy.json" "$case" 0.1
    done
done

[ -n "$whole" ] && chunk=8 || chunk=1
file=$models/stories260k-gguf/stories260k-q8_0
if [ -z "$whole" ]; then
    : # golden.gguf has models of this family
elif [ -e "$file.gguf" ]; then
    compile stories "$file.gguf" && greedy stories "$file.expected_greedy.json" greedy.0 0.1
else
    skip stories "no $file.gguf"
fi

rdrr=$models/shakespeare-gemma3-rdrr
if [ -e "$rdrr/expected.json" ]; then
    compile rdrr "$rdrr" && greedy rdrr "$rdrr/expected.json" . 0.1
else
    skip rdrr "no $rdrr"
fi

# Families that manifests describe in part.
for model in qwen3_5 ${whole:+gemma4 lfm2}; do
    golden=$SRC/tests/golden/$model
    check "rdrr-$model: RDRR" "$TOOLS/hf_to_rdrr" "$golden" "rdrr-$model" && compile "rdrr-$model" "rdrr-$model" --target lavapipe --kv f32 &&
        "$TOOLS/expect" tokens "$golden/expected.json" . >prompt &&
        check "rdrr-$model: runs" "$EXEC" "rdrr-$model.plan" --quiet --tokens-file prompt -n 0 --logits got.f32 &&
        check "rdrr-$model: logits" "$TOOLS/expect" logits "$golden/expected.json" . "$golden/logits.f32" got.f32 5e-4
done

# Quantized here: same text where the model is sure of itself.
demo=$SRC/examples/shakespeare-gemma3
compile mixed "$demo" --quant attn=q8_0,ffn=q6_k,embed=q8_0 && greedy mixed "$demo/expected.json" greedy.2 0.3
cat >types.yaml <<'YAML'
L0.*: q8_0
"*.down_proj.weight": q6_k
"*": f16
YAML
[ -z "$whole" ] || { compile patterns "$demo" --quant types.yaml && greedy patterns "$demo/expected.json" greedy.2 0.3; }
# Experts whose activations are rounded to 8 bits, against the same weights without that.  Where two experts nearly tie, the
# rounding chooses the other one, and that position is another one: with all four of them active there is no choice.
golden=$SRC/tests/golden/glm4_moe
"$TOOLS/expect" tokens "$golden/expected.json" . >prompt
for how in prefer off; do
    printf '%s\n' "base: lavapipe" "name: $how" "int_dot: $how" >$how.yaml
done
mkdir four && cp "$golden"/* four && sed -i 's/"num_experts_per_tok": 2/"num_experts_per_tok": 4/' four/config.json
experts() { # MODEL TYPE APART: how many positions may be others
    local how name="experts of $(basename "$1") in $2"
    for how in prefer off; do
        check "$name: compiles, int_dot $how" "$DOPPLERC" "$1" -o $how.plan --quiet --chunks 1 --target $how.yaml --quant "$2" &&
            "$EXEC" $how.plan --quiet --tokens-file prompt --logits $how.f32 --chunk 1 -n 1 >/dev/null || return
    done
    "$EXEC" --disasm prefer.plan | grep -q 'expert.*_i8' && pass "$name: in integers" || fail "$name: in integers"
    check "$name: as without rounding" "$TOOLS/expect" apart "$golden/expected.json" . off.f32 prefer.f32 0.2 "$3" &&
        sed "s/^/# $name: /" "$WORK/.out"
}
experts four q4_k 0
[ -z "$whole" ] || experts four mxfp4 0
# Beside them a router of floats and a shared expert, of one row: in one dispatch, by workgroups of either kind.
mixed() {
    "$DOPPLERC" four -o mixed.plan --quiet --chunks 1 --target prefer.yaml --quant q4_k --force gemv=gemv_subgroup_mixed &&
        "$EXEC" mixed.plan --check >mixed.txt && grep 'ok .*gemv_subgroup_mixed/L[0-9]*/router' mixed.txt
}
check "integers beside floats: agree with the reference" mixed
# Numbers, whatever an optimizer makes of their loops, which a device's compiler takes long for.
[ -n "$whole" ] && kernels=$DOPPLERC || kernels=$TOOLS/as_written/dopplerc
# Products by head behind integer products take their values as they are.
printf 'base: lavapipe\nname: tells\nint_dot: prefer\n' >tells.yaml
tails() { # KERNEL
    "$kernels" "$SRC/tests/golden/deepseek_v3" -o tails.plan --quiet --chunks 1 --target tells.yaml --quant q8_0 \
        --force gemv="$1" && "$EXEC" tails.plan --check >tails.txt && grep "ok .*$1/L0/q#" tails.txt
}
for kernel in gemv_subgroup_i8 ${whole:+gemv_rows_i8}; do
    check "products by head behind $kernel: agree with the reference" tails $kernel
done
[ -z "$whole" ] || experts "$golden" q4_k 1
# Floats of nibbles are too large by a number, and weights by their unit's minimum, which sums of the activations take away again:
# a fifth of the bound is more than this may cost.
offsets() { # TYPE
    "$kernels" "$demo" -o offsets.plan --quiet --ctx 64 --chunks 1 --target tier3 --quant "$1" &&
        "$EXEC" offsets.plan --check >offsets.txt &&
        awk '/^ok *gemv/ { n++; if (!($5 <= 2e-5)) bad = 1 } END { exit bad || n < 4 }' offsets.txt
}
for type in q4_k ${whole:+int4_g32}; do
    check "offsets of units in $type: little of the sums is lost" offsets $type
done
check_fails "unknown type" 2 "unknown type q9" "$DOPPLERC" "$demo" -o x.plan --quant q9
finish
