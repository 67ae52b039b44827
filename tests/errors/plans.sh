# Plans that are damaged, old, or made for another device: one line, exit status 1.  Damage never goes unnoticed: a plan
# that still runs (the flipped bit was padding) prints what the undamaged one prints.  The argument `whole`: in more places.
. "$(dirname "$0")/../lib.sh"

run() { # PLAN [OPTION...]
    "$EXEC" "$1" --quiet --tokens "1 2 3" -n 4 --temp 0 --ignore-eos --print-ids "${@:2}"
}

"$DOPPLERC" "$SRC/tests/golden/llama" -o good.plan --quiet --chunks 8 --ctx 64 || exit 1
check "the plan runs" run good.plan
run good.plan >good.ids

# ---- not a plan -----------------------------------------------------------------------------------------------------
check_fails "no plan" 1 "nowhere.plan: error: cannot open: No such file or directory" run nowhere.plan
mkdir folder
check_fails "a folder" 1 "folder: error: not a model: no config.json and no manifest.json here" \
    env LD_LIBRARY_PATH="$TOOLS/as_written" "$EXEC" folder --tokens 1 -n 1
mkfifo pipe
check_fails "a pipe" 1 "pipe: error: not a regular file" timeout 20 "$EXEC" pipe -p x
: >empty.plan
check_fails "an empty file" 1 "empty.plan: error: " run empty.plan
check_fails "some other file" 1 "config.json: error: not a Doppler plan" run "$SRC/tests/golden/llama/config.json"
if [ "$(id -u)" -ne 0 ]; then
    cp good.plan secret.plan
    chmod 0 secret.plan
    check_fails "unreadable" 1 "secret.plan: error: cannot open: Permission denied" run secret.plan
fi

# ---- another version ------------------------------------------------------------------------------------------------
cp good.plan other.plan
printf '\377\000\000\000' | dd of=other.plan bs=1 seek=8 conv=notrunc status=none # after the 8 bytes of the magic
check_fails "another version" 1 "the plan has format version 255 and this program reads version" run other.plan

# ---- weights in a file of their own ---------------------------------------------------------------------------------
mkdir -p apart moved
"$DOPPLERC" "$SRC/tests/golden/llama" -o apart/x.plan --quiet --chunks 8 --ctx 64 --weights external || exit 1
[ "$(ls apart | tr '\n' ' ')" = "x.plan x.plan.weights " ] && pass "external: two files" || fail "external: two files"
run apart/x.plan >apart.ids && check "external: the same ids" cmp apart.ids good.ids
check "external: all weights are there" [ "$(stat -c %s apart/x.plan.weights)" -gt $(($(stat -c %s good.plan) / 2)) ]
check "external: the plan is small" [ "$(stat -c %s apart/x.plan)" -lt "$(stat -c %s good.plan)" ]
if grep -qaF -e "$WORK" -e apart apart/x.plan; then fail "external: no folder in the plan"; else pass "external: no folder in the plan"; fi
"$EXEC" apart/x.plan --info >info
check "external: --info names the file" grep -q 'in x.plan.weights: [0-9]* bytes, digest [0-9a-f]*$' info
mv apart/* moved
check "external: both may move" run moved/x.plan
mv moved/x.plan.weights moved/y
check_fails "external: missing" 1 "moved/x.plan.weights: error: cannot open: No such file or directory" run moved/x.plan
head -c -1 moved/y >moved/x.plan.weights
check_fails "external: too short" 1 "bytes where the plan expects" run moved/x.plan
{ cat moved/y && echo more; } >moved/x.plan.weights
check_fails "external: too long" 1 "bytes where the plan expects" run moved/x.plan
"$TOOLS/damage" flip moved/y moved/x.plan.weights 100000 3
check_fails "external: damaged" 1 "the digest of the external weights x.plan.weights does not match" run moved/x.plan

# ---- truncated and flipped ------------------------------------------------------------------------------------------
# refused NAME PLAN: exits with 1 and one line
refused() {
    local status=0
    run "$2" >out 2>err || status=$?
    if [ $status -eq 1 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "^doppler-exec: .*error: ." err; then
        return 0
    fi
    fail "$1" "status $status: $(head -c 300 out err)"
    return 1
}

places=50 # fuzz.plan reads thousands of such plans
[ "${1:-}" != whole ] || places=400
[ -z "${ASAN_OPTIONS:-}" ] || places=20
size=$(stat -c %s good.plan)
bad=0 n=0
for bytes in 1 7 8 12 16 31 32 33 100 500 1000 4096 $((size / 4)) $((size / 3)) $((size / 2)) $((size - 4096)) \
    $((size - 1)); do
    head -c "$bytes" good.plan >cut.plan
    n=$((n + 1))
    refused "truncated to $bytes bytes" cut.plan || bad=$((bad + 1))
done
{ cat good.plan && echo more; } >cut.plan
refused "something appended" cut.plan || bad=$((bad + 1))
[ $bad -eq 0 ] && pass "truncated to $n lengths"

bad=0 n=0 harmless=0
for at in $("$TOOLS/damage" places good.plan $places); do
    "$TOOLS/damage" flip good.plan flipped.plan "$at" $((n % 8)) || bad=$((bad + 1))
    n=$((n + 1))
    if run flipped.plan >out 2>err && cmp -s out good.ids; then
        harmless=$((harmless + 1))
    else
        refused "bit $((n % 8)) of byte $at flipped" flipped.plan || bad=$((bad + 1))
    fi
done
[ $bad -eq 0 ] && pass "a bit flipped in $n places"
if [ $harmless -le $((n / 10)) ]; then
    pass "hardly any of them in padding ($harmless)"
else
    fail "hardly any of them in padding" "$harmless of $n made no difference"
fi

# ---- what the device lacks ------------------------------------------------------------------------------------------
check_fails "no Vulkan driver" 1 "no Vulkan driver was found: install one" \
    env VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent "$EXEC" good.plan --tokens 1
check_fails "no such device" 2 'no device "nope" among' run good.plan --device nope
"$DOPPLERC" "$SRC/tests/golden/llama" -o wide.plan --quiet --target tier1 || exit 1
if "$EXEC" --list-devices | grep -q 'subgroup 8,'; then
    check_fails "another subgroup size" 1 "the plan needs subgroups of 32 invocations and" run wide.plan
else
    skip "another subgroup size" "this device has another one than lavapipe"
fi

# A limit on the address space is one on the device's memory where the processor is the device; AddressSanitizer needs
# terabytes of it.
if [ -n "${ASAN_OPTIONS:-}" ]; then
    skip "out of device memory" "AddressSanitizer allows no limit on memory"
elif "$EXEC" --list-devices | grep -q '(software)'; then
    "$DOPPLERC" "$SRC/tests/golden/llama_f32_mha" -o large.plan --quiet --kv f32 --ctx 1000000 || exit 1
    check_fails "out of device memory" 1 "the device is out of memory: close other programs that use it, compile with" \
        bash -c 'ulimit -v 800000 && "$0" large.plan --tokens 1 -n 1 -j 1' "$EXEC"
else
    skip "out of device memory" "a real device"
fi
finish
