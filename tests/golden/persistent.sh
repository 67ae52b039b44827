# Decode steps as one persistent dispatch.  A software device may run its workgroups one after another, so there is one
# here, which must do all the work of a step; how several of them hand values to each other is for GPUs to show.
. "$(dirname "$0")/../lib.sh"

# Caches are f16 (attention of one token is made for those).
target() { # NAME LINE...
    printf '%s\n' "base: nvidia-hopper" "name: $1" "subgroup: 8" "max_workgroup: 256" "shared_bytes: 32768" \
        "${@:2}" >"$1.yaml"
}
target one-workgroup "cores: 1" "persistent: 64" "caps: [f16_storage, f16_math, i8_storage, subgroup]"
target integers "cores: 1" "persistent: 128" "caps: [f16_storage, f16_math, i8_storage, subgroup, int_dot]" "int_dot: prefer"
target none "persistent: 0" "caps: [f16_storage, f16_math, i8_storage, subgroup]"

generate() { # PLAN ORDERING OUT [OPTION...]
    "$EXEC" "$1" --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids --ordering "$2" -n 24 "${@:4}" >"$3"
}

# persistent MODEL TARGET [OPTION...]: all ids of both orderings are equal, and are the reference's.  The plans are those
# that are probed below: a software device takes ten seconds and more to compile the kernel of such a dispatch.
persistent() {
    local golden=$SRC/tests/golden/$1 name="$1 $2"
    "$TOOLS/expect" tokens "$golden/expected.json" . >prompt
    check "$name: compiles" "$DOPPLERC" "$golden" -o p.plan --quiet --target "$2.yaml" --chunks 8 \
        "${@:3}" || return
    "$EXEC" --disasm p.plan >listing
    check "$name: stages" grep -q 'persistent, [1-9][0-9]* stages' listing
    check "$name: by barriers" generate p.plan barriers barriers.ids
    check "$name: persistent" generate p.plan persistent persistent.ids &&
        check "$name: the same ids" cmp barriers.ids persistent.ids
    [ $# -gt 2 ] || # weights as they were trained
        check "$name: the reference's ids" "$TOOLS/expect" ids "$golden/expected.json" . persistent.ids 0.1
}

run_check() {
    "$EXEC" p.plan --check --ordering persistent >checked && grep -q '^ok *persistent *stages' checked
}

for model in gemma3 olmo2 mistral_window glm4_moe; do
    persistent $model one-workgroup
done
check "--check compares stages, those of experts too" run_check
persistent gemma3 integers --quant q4_0

# What a probe says of the form, and that the sequence's own logits are the same bytes with probes and without.
for case in "gemma3 one-workgroup" "gemma3 integers --quant q4_0"; do
    set -- $case
    "$TOOLS/expect" tokens "$SRC/tests/golden/$1/expected.json" . >prompt
    "$DOPPLERC" "$SRC/tests/golden/$1" -o probed.plan --quiet --target "$2.yaml" --chunks 8 "${@:3}"
    check "probe of $case: it would do" "$TOOLS/probe" probed.plan prompt
done
# Stages that read the wrong weights: of projections, of what follows attention, of the last layer.
for stage in 0 3 9; do
    check "probe: stage $stage is made wrong" "$TOOLS/edit_plan" probed.plan wrong.plan --shift "$stage" || continue
    "$TOOLS/probe" wrong.plan prompt >said 2>&1
    [ $? -eq 3 ] && grep -q 'its logits are others' said && pass "probe: stage $stage, the fault is found" ||
        fail "probe: stage $stage, the fault is found" "$(cat said)"
done


# A profile has the stages as it has dispatches, one for each layer.
profiled() {
    "$EXEC" p.plan --profile p.json --ordering persistent --tokens "1 2 3" --chunk 1 -n 2 >profile.txt &&
        grep -qE '^  L\*/attn +persistent +[1-9]' profile.txt && grep -q '"name":"L0/ffn_down"' p.json
}
check "--profile shows stages" profiled

# A plan for many workgroups, in which they share out the query heads of a KV head: one that does all the work of them.
target many "cores: 64" "persistent: 128" "caps: [f16_storage, f16_math, i8_storage, subgroup]"
"$TOOLS/expect" tokens "$SRC/tests/golden/gemma3/expected.json" . >prompt
check "many: compiles" "$DOPPLERC" "$SRC/tests/golden/gemma3" -o many.plan --quiet --target many.yaml --chunks 8 &&
    check "many: one workgroup" "$TOOLS/edit_plan" many.plan p.plan --workgroups 1 &&
    check "many: by barriers" generate p.plan barriers barriers.ids &&
    check "many: persistent" generate p.plan persistent persistent.ids &&
    check "many: the same ids" cmp barriers.ids persistent.ids && check "many: --check" run_check

# A cache that is short at first: query heads are shared out then, and later the cache is cut into more parts.  Both forms
# run with one part and with two (from 128 positions on); prompts end shortly before what is to be crossed, because a
# software device takes long for a step of this kind.  That nothing is left of the parts of a longer cache is for --check
# to see: one workgroup stores a part before it looks at it.
target short "cores: 16" "persistent: 128" "caps: [f16_storage, f16_math, i8_storage, subgroup]"
"$TOOLS/expect" tokens "$SRC/tests/golden/qwen3/expected.json" . | tr -s ' \n' '  ' >whole
cut -d ' ' -f 1-5 whole >first
for _ in 1 2 3 4 5 6; do cat whole; done | tr -d '\n' >long # 120 tokens
crosses() { # NAME PROMPT STEPS POSITIONS
    cp "$2" prompt
    check "short up to $4, $1: plan" "$TOOLS/edit_plan" short.plan p.plan --short "$4" &&
        check "short up to $4, $1: by barriers" generate p.plan barriers barriers.ids -n "$3" &&
        check "short up to $4, $1: persistent" generate p.plan persistent persistent.ids -n "$3" &&
        check "short up to $4, $1: the same ids" cmp barriers.ids persistent.ids
}
check "short: compiles" "$DOPPLERC" "$SRC/tests/golden/qwen3" -o many.plan --quiet --target short.yaml --chunks 8 --ctx 256 &&
    check "short: one workgroup" "$TOOLS/edit_plan" many.plan short.plan --workgroups 1 &&
    crosses "from the first on" first 24 12 && crosses "one part, then two" long 24 12 &&
    crosses "two parts, then the long form" long 48 150 && check "short: --check" run_check

# Four workgroups, and a device that runs two at once: the others wait for what nobody makes.  Nothing is lost by that.
target too-many "cores: 4" "persistent: 128" "caps: [f16_storage, f16_math, i8_storage, subgroup]"
falls_back() {
    "$EXEC" p.plan -v --tokens-file prompt --temp 0 --ignore-eos --print-ids --ordering persistent -n 24 \
        >persistent.ids 2>log
}
cp whole prompt
check "too many: compiles" "$DOPPLERC" "$SRC/tests/golden/qwen3" -o p.plan --quiet --target too-many.yaml --chunks 8 &&
    check "too many: by barriers" generate p.plan barriers barriers.ids &&
    check "too many: runs" falls_back && check "too many: the same ids" cmp barriers.ids persistent.ids
grep -q 'back to barriers' log || skip "too many: says so" "the device ran all of them at once"

"$DOPPLERC" "$SRC/tests/golden/llama" -o none.plan --quiet --target none.yaml --chunks 8
check_fails "a plan without stages" 1 "has no persistent decode schedule" \
    "$EXEC" none.plan --quiet --tokens-file prompt -n 1 --ordering persistent
finish
