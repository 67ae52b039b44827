# Decode steps as one persistent dispatch.  A software device may run its workgroups one after another, so there is one
# here, which must do all the work of a step; how several of them hand values to each other is for GPUs to show.
. "$(dirname "$0")/../lib.sh"

# A persistent kernel is all stages of a model in one, and what the software device's compiler takes for it grows with the
# square of that: one of them runs here, and what else can be tried with it is tried with the same one.  Others, of integer products and
# of steps of several rows too, are compiled here and run with the argument `whole` (the long form).

forms=$TOOLS/as_written/dopplerc # for plans that nobody runs
# Caches are f16 (attention of one token is made for those).
target() { # NAME CORES [LINE...]: a line replaces the one of the same field
    printf '%s\n' "base: nvidia-hopper" "name: $1" "cores: $2" "subgroup: 8" "max_workgroup: 64" "persistent: 64" \
        "shared_bytes: 32768" "caps: [f16_storage, f16_math, i8_storage, subgroup]" "${@:3}" |
        awk -F: '{ line[$1] = $0 } END { for (field in line) print line[field] }' >"$1.yaml"
}
target one-workgroup 1
target integers 1 "caps: [f16_storage, f16_math, i8_storage, subgroup, int_dot]" "int_dot: prefer"
target many 64
target short 16 "split_least: 8"
target none 1 "persistent: 0"

generate() { # PLAN ORDERING OUT [OPTION...]
    defaults "-n 24" "${@:4}"
    "$EXEC" "$1" --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids --ordering "$2" "${OPTIONS[@]}" >"$3"
}

# persistent MODEL TARGET PLAN [OPTION...]: PLAN with all the work given to one workgroup; all ids of both orderings are
# equal, and are the reference's.
persistent() {
    local golden=$SRC/tests/golden/$1 name="$1 $2" plan=$3
    "$TOOLS/expect" tokens "$golden/expected.json" . >prompt
    check "$name: compiles" "$DOPPLERC" "$golden" -o many.plan --quiet --target "$2.yaml" "${@:4}" &&
        check "$name: one workgroup" "$TOOLS/edit_plan" many.plan "$plan" --workgroups 1 || return
    "$EXEC" --disasm "$plan" >listing
    check "$name: stages" grep -q 'persistent, [1-9][0-9]* stages' listing
    check "$name: by barriers" generate "$plan" barriers barriers.ids
    check "$name: persistent" generate "$plan" persistent persistent.ids &&
        check "$name: the same ids" cmp barriers.ids persistent.ids
    [[ " $* " == *" --quant "* ]] || # weights as they were trained
        check "$name: the reference's ids" "$TOOLS/expect" ids "$golden/expected.json" . persistent.ids 0.1
}

# What a probe says of the form, and that the sequence's own logits are the same bytes with probes and without.
probe() { # NAME PLAN
    check "probe of $1: it would do" "$TOOLS/probe" "$2" prompt
}

run_check() { # PLAN
    "$EXEC" "$1" --check --ordering persistent >checked && grep -q '^ok *persistent *stages' checked
}

# Experts, where there is time for it, and experts beside a dense layer and latent attention.  One of three products of a row is
# then in integers where barriers order the dispatches, which therefore round the row to 8 bits; the stage has floats only and
# does not, which --check must know.
if [ "${1:-}" = whole ]; then
    persistent mixtral one-workgroup mixtral.plan --chunks 1
    check "--check compares stages, those of experts too" run_check mixtral.plan
    echo '"model.layers.0.self_attn.kv_a_proj_with_mqa.weight": q8_0' >types.yaml
    persistent deepseek_v3 integers deepseek_v3.plan --chunks 1 --quant types.yaml
    check "deepseek_v3 integers: the reference's ids" \
        "$TOOLS/expect" ids "$SRC/tests/golden/deepseek_v3/expected.json" . persistent.ids 0.1
    grep -q 'gemv_subgroup_mixed/L0/qkv' listing && pass "integers beside floats" || fail "integers beside floats"
    check "--check compares stages, those of experts and unrounded ones too" run_check deepseek_v3.plan
fi
# Norms of whole rows, which attention sums up.
[ "${1:-}" != whole ] || persistent olmo2 one-workgroup olmo2.plan --chunks 1
# Layers that scan beside attention, and an embedding that several regions read: a stage that is no product.  And experts, alone and
# beside a dense part.
for model in falcon_h1 gemma4_moe mixtral; do
    if [ "${1:-}" = whole ] && [ $model != mixtral ]; then
        persistent $model one-workgroup $model.plan --chunks 1
    else
        check "$model has a persistent form" "$forms" "$SRC/tests/golden/$model" -o form.plan --quiet --chunks 1 \
            --target one-workgroup.yaml && "$EXEC" --disasm form.plan >listing
        check "$model: stages" grep -q 'persistent, [1-9][0-9]* stages' listing
    fi
done
# A window, and products in integers; and steps of up to four rows, of three sequences, which have a form of their own.  Rows of
# one sequence read what others of the step make, sequences come and go between steps of one row, and a step may have fewer rows
# than the form: nothing may be left in a mailbox.
if [ "${1:-}" = whole ]; then
    persistent mistral_window integers integers.plan --chunks 8 --quant q4_0 --sequences 3 --rows 4
    probe "mistral_window integers" integers.plan
    check "integers: 30 operations, persistent" "$TOOLS/sequences" integers.plan 30 5 5e-4 . 40 persistent
    check "integers: --check compares stages" run_check integers.plan
else
    check "mistral_window integers: compiles" "$forms" "$SRC/tests/golden/mistral_window" -o form.plan --quiet --target integers.yaml \
        --chunks 8 --quant q4_0 --sequences 3 --rows 4 && "$EXEC" --disasm form.plan >listing
fi
grep -q 'rows4 .*persistent, [1-9][0-9]* stages' listing && pass "integers: rows have a form" || fail "integers: rows have a form"

# Steps of a few rows that replace states: of two sequences and of one, the latter for drafts of a layer of the model's own.  Matrix
# units, which this target has, would take their products away from stages.
rows_form() { # MODEL [OPTION...]
    "$forms" "$1" -o form.plan --quiet --target nvidia-hopper --ctx 64 --chunks 4 --rows 2 "${@:2}" &&
        "$EXEC" --disasm form.plan >listing && grep -q 'rows2 .*persistent, [1-9][0-9]* stages' listing
}
check "mamba2: rows of two sequences have a form" rows_form "$SRC/tests/golden/mamba2" --sequences 2
if [ "${1:-}" = whole ]; then
    demo=$SRC/examples/shakespeare-gemma3-draft
    check "drafts: rows of one sequence have a form" rows_form "$demo"
    for model in lfm2 mamba2 qwen3_5 falcon_h1; do
        persistent $model one-workgroup $model.plan --chunks 4,16 --ctx 64 --sequences 3 --rows 4
        probe "$model, rows" $model.plan
        check "$model: 30 operations, persistent" "$TOOLS/sequences" $model.plan 30 5 2e-2 . 40 persistent
    done
    # Rounds of drafts, of the demo's trained layer, and of a random one behind states that are kept after each row.
    check "the demo: a plan" "$DOPPLERC" "$demo" -o many.plan --quiet --target one-workgroup.yaml --ctx 128 --chunks 8 --rows 4 &&
        check "the demo: one workgroup" "$TOOLS/edit_plan" many.plan demo.plan --workgroups 1 &&
        check "the demo: persistent rounds" "$TOOLS/drafts" demo.plan 40 1 own persistent
    if ! command -v python3 >/dev/null; then
        skip "rounds with states" "python3 is absent"
    elif check "a layer for qwen3_5" python3 "$SRC/tests/tools/add_head.py" "$SRC/tests/golden/qwen3_5" drafting 2 --like qwen; then
        check "drafting: a plan" "$DOPPLERC" drafting -o many.plan --quiet --target one-workgroup.yaml --ctx 64 --chunks 4 --rows 4 &&
            check "drafting: one workgroup" "$TOOLS/edit_plan" many.plan drafting.plan --workgroups 1 &&
            check "drafting: persistent rounds" "$TOOLS/drafts" drafting.plan 40 1 none persistent
    fi
fi

# A plan for many workgroups, in which they share out the query heads of a KV head: one that does all the work of them.  In the long
# form with sandwich norms, and a cache that is no longer than a ring would be, so that layers with a window and without are the same
# stages.
[ "${1:-}" = whole ] && model=gemma3 || model=llama
persistent $model many shared.plan --chunks 8 --ctx 96
probe $model shared.plan
check "many: --check compares stages" run_check shared.plan
# Stages that read the wrong weights: of projections, of what follows attention, of the last layer.
for stage in 0 3 9; do
    check "probe: stage $stage is made wrong" "$TOOLS/edit_plan" shared.plan wrong.plan --shift "$stage" || continue
    "$TOOLS/probe" wrong.plan prompt >said 2>&1
    [ $? -eq 3 ] && grep -q 'its logits are others' said && pass "probe: stage $stage, the fault is found" ||
        fail "probe: stage $stage, the fault is found" "$(cat said)"
done

# A profile has the stages as it has dispatches, one for each layer.
profiled() { # PLAN
    "$EXEC" "$1" --profile p.json --ordering persistent --tokens "1 2 3" --chunk 1 -n 2 >profile.txt &&
        grep -qE '^  L\*/attn +persistent +[1-9]' profile.txt && grep -q '"name":"L0/ffn_down"' p.json
}
check "--profile shows stages" profiled shared.plan

# A cache that is short at first: query heads are shared out then, and later the cache is cut into more parts.  Both forms
# run with one part and with several (from 128 positions on), the last of which has a few rows more than the others at
# first; prompts end shortly before what is to be crossed, because a software device takes long for a step of this kind.
# That nothing is left of the parts of a longer cache is for --check to see: one workgroup stores a part before it looks
# at it.
[ "${1:-}" != whole ] || persistent qwen3 short short.plan --chunks 8 --ctx 256
tr -s ' \n' '  ' <prompt >whole
cut -d ' ' -f 1-5 whole >first
for _ in 1 2 3 4 5 6; do cat whole; done | tr -d '\n' >long # 120 tokens
crosses() { # NAME PROMPT STEPS POSITIONS
    cp "$2" prompt
    check "short up to $4, $1: plan" "$TOOLS/edit_plan" short.plan p.plan --short "$4" &&
        check "short up to $4, $1: by barriers" generate p.plan barriers barriers.ids -n "$3" &&
        check "short up to $4, $1: persistent" generate p.plan persistent persistent.ids -n "$3" &&
        check "short up to $4, $1: the same ids" cmp barriers.ids persistent.ids
}
[ "${1:-}" != whole ] || {
    crosses "from the first on" first 24 12 && crosses "one part, then several" long 24 12 &&
        crosses "several parts, then the long form" long 48 150 && check "short: --check" run_check p.plan
}

# Four workgroups, and a device that runs two at once: the others wait for what nobody makes.  Nothing is lost by that.
falls_back() {
    "$EXEC" p.plan -v --tokens-file prompt --temp 0 --ignore-eos --print-ids --ordering persistent -n 24 \
        >persistent.ids 2>log
}
cp whole prompt
check "too many: plan" "$TOOLS/edit_plan" many.plan p.plan --workgroups 4 &&
    check "too many: by barriers" generate p.plan barriers barriers.ids &&
    check "too many: runs" falls_back && check "too many: the same ids" cmp barriers.ids persistent.ids
grep -q 'back to barriers' log || skip "too many: says so" "the device ran all of them at once"

"$DOPPLERC" "$SRC/tests/golden/llama" -o none.plan --quiet --target none.yaml --chunks 1
check_fails "a plan without stages" 1 "has no persistent decode schedule" \
    "$EXEC" none.plan --quiet --tokens-file prompt -n 1 --ordering persistent
finish
