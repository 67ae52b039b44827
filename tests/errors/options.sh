# What dopplerc must refuse although the model is fine: options, targets, outputs.
. "$(dirname "$0")/../lib.sh"
model=$SRC/tests/golden/llama

# refuses STATUS TEXT ARGUMENT...: named after its arguments; leaves no file behind
refuses() {
    check_fails "$(echo "${*:3}" | cut -c1-60)" "$1" "$2" "$DOPPLERC" "${@:3}" || return
    if [ -n "$(find . -name 'plan*')" ]; then
        fail "$(echo "${*:3}" | cut -c1-60): leaves no file" "$(find . -name 'plan*')"
        rm -f plan*
    fi
}

# ---- usage: status 2 ------------------------------------------------------------------------------------------------
refuses 2 "no model: dopplerc MODEL -o PLAN"
refuses 2 "nothing to do: name the plan with -o FILE" "$model"
refuses 2 "-o needs a value: FILE" "$model" -o
refuses 2 "more than one model" "$model" "$model" -o plan
refuses 2 "unknown option --bogus; see --help" "$model" -o plan --bogus
refuses 2 "unknown target nope; known: auto tier1 tier2 tier3 lavapipe" "$model" -o plan --target nope
refuses 2 "--quant: unknown type zzz; known are keep f32 f16 bf16" "$model" -o plan --quant zzz
refuses 2 "--ctx must lie between 1 and" "$model" -o plan --ctx 0
refuses 2 "--ctx must lie between 1 and" "$model" -o plan --ctx -5
refuses 2 '--ctx needs a whole number, not "many"' "$model" -o plan --ctx many
refuses 2 "--chunks 0: expected sizes from 1 to" "$model" -o plan --chunks 0
refuses 2 "--chunks 8,,9: expected sizes from 1 to" "$model" -o plan --chunks 8,,9
refuses 2 "--kv q9: known are f16 and f32" "$model" -o plan --kv q9
refuses 2 "--act zz: known are f16 and f32" "$model" -o plan --act zz
refuses 2 "--force zz: expected OP=VARIANT" "$model" -o plan --force zz
refuses 1 "--force matmul=zz: no kernel zz; known:" "$model" -o plan --force matmul=zz
refuses 2 "unknown pass nope; known: canon" "$model" -o plan --skip nope
refuses 2 "unknown pass nope; known: canon" "$model" -o plan --stop-after nope
refuses 2 "--emit zzz: known are ir, regions, glsl, spirv and plan" "$model" -o plan --emit zzz
refuses 2 "-j must lie between 1 and" "$model" -o plan -j 0
refuses 2 "--weights zz: known are embed and external" "$model" -o plan --weights zz
refuses 2 "--explain zz: no region has that op" "$model" -o plan --explain zz
refuses 2 "-d: no pass has the letter Q; see --help" "$model" -o plan -d Q

# ---- files ----------------------------------------------------------------------------------------------------------
refuses 1 "nowhere.yaml: error: cannot open: No such file or directory" "$model" -o plan --target nowhere.yaml
refuses 1 "/nonexistent/plan: error: cannot write: No such file or directory" "$model" -o /nonexistent/plan
refuses 1 "$WORK: error: cannot write: Is a directory" "$model" -o "$WORK"
refuses 1 "No space left on device" "$model" -o /dev/full
refuses 1 "/dev/null: error: --weights external needs a regular file" "$model" -o /dev/null --weights external
[ -c /dev/full ] && pass "/dev/full is still a device" || fail "/dev/full is still a device"
refuses 1 "/nonexistent/r: error: cannot write: No such file or directory" "$model" -o plan --report=/nonexistent/r
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed
    chmod 500 closed
    refuses 1 "closed/plan: error: cannot write: Permission denied" "$model" -o closed/plan
    cp -r "$model" unreadable
    chmod 0 unreadable/config.json
    refuses 1 "unreadable/config.json: error: cannot open: Permission denied" unreadable -o plan
fi
# The disk fills up: what was there before stays, nothing half-written is left.
mkdir disk
echo old >disk/plan
check_fails "a plan that outgrows the disk" 1 "File too large" \
    bash -c 'trap "" XFSZ && ulimit -f 64 && exec "$0" "$1" -o disk/plan --quiet' "$DOPPLERC" "$model"
echo old >disk/plan.weights
check_fails "weights that outgrow the disk" 1 "File too large" \
    bash -c 'trap "" XFSZ && ulimit -f 64 && exec "$0" "$1" -o disk/plan --quiet --weights external' "$DOPPLERC" "$model"
[ "$(cat disk/plan.weights)" = old ] && pass "the old weights stay" || fail "the old weights stay"
rm disk/plan.weights
[ "$(cat disk/plan)" = old ] && pass "the old plan stays" || fail "the old plan stays"
[ "$(ls disk)" = plan ] && pass "nothing half-written is left" || fail "nothing half-written is left" "$(ls disk)"
finish
