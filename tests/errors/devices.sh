# Devices that are not what one hopes for: a driver that computes nothing says what fake_driver.txt tells it to
# (tests/driver/fake_driver.c).  Each lie is a process of its own: it runs, where something else is left to do that is said with
# -v, or it fails with one line that has the next step.
. "$(dirname "$0")/../lib.sh"
cp "$TOOLS/fake_driver.so" "$TOOLS/fake_driver.json" .
export VK_DRIVER_FILES=$WORK/fake_driver.json VK_ICD_FILENAMES=$WORK/fake_driver.json
unset VK_INSTANCE_LAYERS
check "compiles" "$DOPPLERC" "$SRC/tests/golden/llama" -o llama.plan --quiet --target tier1,tier3 --chunks 8 --ctx 64 || exit 1
run=("$EXEC" llama.plan --tokens "1 2 3" -n 3)

say() { # LINE...: the settings of the next processes
    printf '%s\n' "$@" >fake_driver.txt
}

# fine NAME TEXT LINE...: with these settings it runs, and -v says so
fine() {
    local name=$1 text=$2
    shift 2
    say "$@"
    if "${run[@]}" -v >out 2>err && grep -qx '0 0 0' out && grep -qF -e "$text" err; then
        pass "$name"
    else
        fail "$name" "expected: $text"
        sed 's/^/    | /' out err | tail -n 12
    fi
}

# refused NAME TEXT LINE...: with these settings there is one line, and no output
refused() {
    local name=$1 text=$2
    shift 2
    say "$@"
    check_fails "$name" 1 "$text" "${run[@]}" --quiet
}

again="compile for this device with --target auto, or choose another --device"
fine "an honest device" "target: tier1" ""

# ---- features and limits
fine "no subgroups: the other target" "target tier1 not taken: it needs subgroup basic, vote" "without subgroup"
fine "subgroups of another size" "not taken: it needs subgroups of 32 invocations and Fake Device has 64 to 64" "limit subgroup 64"
fine "small workgroups" "not taken: it needs 256 invocations per workgroup" "limit workgroup 128"
fine "the least of 16-bit and 8-bit features" "target: tier" "without f16" "without int16" "without int8" "without int64" \
    "without storage16" "without storage8" "without dot" "without scalar" "without memory_model" "without control"
refused "no buffer addresses" "no usable Vulkan device: Fake Device lacks buffer device addresses" "without address"
refused "no timelines" "lacks timeline semaphores" "without timeline"
refused "Vulkan 1.1" "lacks Vulkan 1.2 (it has 1.1)" "api 1"
refused "no queue that computes" "lacks a compute queue" "queue 4" "queue 1"
fine "the queue that computes is another one" "target: tier1" "queue 4" "queue 8" "queue 2"
for limit in "shared 1024" "push 32" "grid 4" "local 64" "workgroup 64"; do
    refused "limit: $limit" "$again" "limit $limit"
done
refused "small allocations" "allows 0.1 MiB in one allocation: compile for this device" "limit alloc 100000"

# The least that Vulkan 1.2 allows, and nothing beside: a plan that is made for such a device runs there.
least=("api 2" "limit workgroup 128" "limit local 128" "limit shared 16384" "limit push 128" "limit subgroup 1" "without subgroup"
    "without control" "without f16" "without int16" "without int8" "without int64" "without storage16" "without storage8"
    "without dot" "without scalar" "without memory_model")
say "${least[@]}"
check "--target auto on the least device" "$DOPPLERC" "$SRC/tests/golden/llama" -o least.plan --quiet --target auto --chunks 8 \
    --ctx 64
run[1]=least.plan
fine "its plan runs there" "device: Fake Device" "${least[@]}"
say "limit alloc 300000"
check "--target auto where weights are larger than an allocation" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o least.plan --quiet \
    --target auto --chunks 8 --ctx 64
check "its plan runs there, too" "$EXEC" least.plan --tokens "1 2 3" -n 3 --quiet
run[1]=llama.plan

# ---- --target auto: the file that is for the device, by vendor and capabilities, never by its name
becomes() { # NAME TARGET LINE...
    local name=$1 target=$2
    shift 2
    say "$@"
    if "$DOPPLERC" "$SRC/tests/golden/llama" -o auto.plan --target auto --chunks 8 --ctx 64 2>err &&
        grep -q "^dopplerc: target $target: for ${name%%:*}, the device that doppler-exec picks here$nearest" err; then
        pass "--target auto: $name"
    else
        fail "--target auto: $name" "expected: $target"
        sed 's/^/    | /' err | tail -n 12
    fi
}
matrix="matrix 16 16 16"
nearest='$'
becomes "Hopper: H100" nvidia-hopper "device discrete Hopper" "id 0x10de 0x2330" "$matrix"
becomes "Hopper: H200" nvidia-hopper "device discrete Hopper" "id 0x10de 0x2335" "$matrix"
becomes "Card: A100" nvidia-ampere "device discrete Card" "id 0x10de 0x20b0" "$matrix"
becomes "Card: RTX 3060" nvidia-ampere "device discrete Card" "id 0x10de 0x2503" "$matrix"
becomes "Card: RTX 4090" nvidia-ada "device discrete Card" "id 0x10de 0x2684" "$matrix"
becomes "Card: B200" nvidia-blackwell "device discrete Card" "id 0x10de 0x2901" "$matrix"
becomes "Card: RTX 5090" nvidia-blackwell "device discrete Card" "id 0x10de 0x2b85" "$matrix"
becomes "Jetson: Orin" nvidia-orin "device integrated Jetson" "id 0x10de 0x97ba03d7" "$matrix"
becomes "Raspberry: V3D" v3d "device integrated Raspberry" "id 0x14e4 0x55701c33" "limit subgroup 16" "limit shared 16384"
becomes "PowerVR: BXM" powervr "device integrated PowerVR" "id 0x1010 0x36104182" "limit subgroup 128" "limit shared 16384"
becomes "Radeon: RX 7900" amd-rdna3 "device discrete Radeon" "id 0x1002 0x744c" "$matrix"
becomes "Arc: B580" intel-xe2 "device discrete Arc" "id 0x8086 0xe20b" "matrix 8 16 16" "limit subgroup 16"
becomes "Arc: of 32, asked for 16" intel-xe2 "device discrete Arc" "id 0x8086 0xe20b" "matrix 8 16 16" "limit subgroup 32" "limit subgroup_least 16"
becomes "Arc: A770" intel-xe-hpg "device discrete Arc" "id 0x8086 0x56a0" "limit subgroup_least 8"
becomes "Arc: A770 with matrix units" intel-xe-hpg-xmx "device discrete Arc" "id 0x8086 0x56a0" "matrix 8 8 16" \
    "limit subgroup_least 8"
becomes "Arc: with matrices that its file does without" intel-xe-lpg "device integrated Arc" "id 0x8086 0x7d55" "matrix 8 8 16" \
    "limit subgroup_least 8"
check "and so do its kernels" sh -c '"$1" auto.plan --info | grep "^target" | grep -vq matrix' sh "$EXEC"
becomes "Radeon: RX 9070" amd-rdna4 "device discrete Radeon" "id 0x1002 0x7550" "$matrix" "limit subgroup 64" "limit subgroup_least 32"
becomes "Radeon: without matrix units" amd-rdna2 "device discrete Radeon" "id 0x1002 0x73bf"
becomes "Instinct: MI300X" amd-cdna "device discrete Instinct" "id 0x1002 0x74a1" "limit subgroup 64"
becomes "Apple: M2" apple "device integrated Apple" "id 0x106b 0xf0a12"
becomes "Adreno: no subgroup operations" adreno "device integrated Adreno" "id 0x5143 0x43050a01" "without subgroup"
becomes "Mali: no 16-bit storage" mali "device integrated Mali" "id 0x13b5 0x1234" "without storage16"
becomes "Software: a CPU of any vendor" lavapipe "device cpu Software" "id 0x10005 0"
nearest='; no target file is for it, and this is the nearest one'
becomes "NVIDIA in name: of another vendor" tier1 "device discrete NVIDIA in name" "id 0xfa4e 0x2330"
becomes "Turing: before the files" tier1 "device discrete Turing" "id 0x10de 0x1e07" "$matrix"
becomes "Plain: no subgroup operations" tier2 "device integrated Plain" "id 0xfa4f 0x1234" "without subgroup"
check "two ways to try such a device are offered in one line" [ "$(grep -c 'doppler-exec auto.plan --check .* --tune --target-out' err)" = 1 ]
becomes "Small: no 16-bit storage" tier3 "device integrated Small" "id 0xfa4f 0x1234" "without storage16"

# What a target file asks for, as far as the device lets kernels ask: a size of subgroups, and no more of them than a workgroup may have.
asks() { # NAME SUBGROUP LINE...
    local name=$1 subgroup=$2
    shift 2
    say "$@"
    if "$DOPPLERC" "$SRC/tests/golden/llama" -o auto.plan --target auto --chunks 64 --ctx 128 --quiet 2>err &&
        "$EXEC" auto.plan --info | grep -q "^target .*: subgroup $subgroup," && "$EXEC" auto.plan --tokens "1 2 3" -n 3 --quiet >out 2>err; then
        pass "auto asks: $name"
    else
        fail "auto asks: $name" "expected: subgroups of $subgroup"
        sed 's/^/    | /' err | tail -n 12
    fi
}
xe=("device discrete Arc" "id 0x8086 0x56a0" "limit subgroup 32" "limit subgroup_least 8" "limit workgroup 1024" "limit local 1024")
asks "the least size of Xe-HPG" 8 "${xe[@]}" "limit subgroups 64"
asks "few subgroups in a workgroup" 8 "${xe[@]}" "limit subgroups 16"
# 32 KiB of shared memory where the file says 64 (AMDVLK), and allocations of 1 GiB where it says 2.
amd=("device discrete Radeon" "id 0x1002 0x744c" "$matrix" "limit subgroup 64" "limit subgroup_least 32" "limit workgroup 1024" "limit local 1024")
asks "half of the shared memory" 64 "${amd[@]}" "limit shared 32768"
least_shared() { [ "$("$EXEC" auto.plan --info | sed -n 's/^target.* \([0-9]*\) bytes of shared memory.*/\1/p')" -le 32768 ]; }
check "its kernels need no more" least_shared
asks "allocations of 1 GiB" 64 "${amd[@]}" "limit alloc 1073741824"
asks "a device whose kernels may not ask" 32 "${xe[@]}" "without control"

# ---- memory: heaps are FLAGS BYTES (1: of the device), types FLAGS HEAP (1 of the device, 2 visible, 4 coherent, 8 cached)
fine "types in an odd order" "target: tier1" "heap 0 67108864" "heap 1 67108864" "type 0 0" "type 16 1" "type 14 0" "type 7 1" \
    "type 6 0" "type 33 1" "type 1 1"
fine "one memory for everything" "target: tier1" "heap 1 67108864" "type 15 0"
fine "a small window to the device" "allocations are in another memory than suits best, which is full" \
    "heap 1 67108864" "heap 1 4096" "heap 0 67108864" "type 7 1" "type 1 0" "type 6 2"
fine "all of the device is visible" "target: tier1" "heap 1 67108864" "heap 0 67108864" "type 7 0" "type 6 1"
fine "a device without memory of its own, one that shares" "target: tier1" "device integrated Small" "heap 1 67108864" "type 15 0"
refused "nothing that the host can map" "has no memory that the host can map" "heap 1 67108864" "type 1 0"
refused "nothing coherent" "has no memory that the host can map" "heap 1 67108864" "type 1 0" "type 2 0" "type 10 0"
refused "nothing of its own" "has no memory of its own" "heap 1 67108864" "type 6 0"
refused "buffers may lie nowhere" "update the driver, or choose another --device" "bits 0"
refused "a small heap" "and Fake Device has 0.2 MiB free of 0.2: compile it again: --quant" "heap 1 200000" "heap 0 67108864" \
    "type 1 0" "type 6 1"
refused "a full heap of the host" "the device is out of memory: close other programs" "heap 1 67108864" "heap 0 4096" "type 1 0" "type 6 1"

# ---- several devices
fine "the best of three" "device: Big" "device cpu Soft" "device integrated Small" "device discrete Big"
fine "the best cannot be used" "device: Small" "device discrete Old" "device integrated Small" "for 0" "api 1"
fine "the first of two equals" "device: A" "device discrete A" "device discrete B"
run+=(--device old)
refused "by name, one that cannot be used" "(Old) cannot be used: it lacks buffer device addresses" "device cpu Soft" "device discrete Old" "for 1" \
    "without address"
fine "by name" "device: Old" "device discrete New" "device virtual Old"
run=("${run[@]::${#run[@]}-2}")
refused "no device at all" "no Vulkan driver was found: install one" "fail vkEnumeratePhysicalDevices 0 -9"

# ---- a server whose device is lost: one line, 503, and an end with a status that lets a supervisor start it again
say ""
"$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o served.plan --quiet --target tier1 --chunks 8 --ctx 64
"$EXEC" served.plan -p a -n 3 --quiet >out 2>err
say "fail vkQueueSubmit $(($(sed -n 's/^vkQueueSubmit //p' fake_driver.calls) + 3)) -4"
serve_lost() {
    local status=0 line pid i
    "$EXEC" served.plan --serve 0 --serve-grace 1 >served 2>said &
    pid=$!
    for ((i = 0; i < 300; i++)); do
        line=$(grep -o 'http://[0-9.:]*' served | head -n 1)
        [ -z "$line" ] || break
        sleep 0.1
    done
    python3 - "$line" <<'PYTHON' || { kill "$pid"; return 1; }
import json, sys, urllib.error, urllib.request
def status(path, body=None):
    try:
        data = json.dumps(body).encode() if body else None
        return urllib.request.urlopen(urllib.request.Request(sys.argv[1] + path, data, {"Content-Type": "application/json"}), timeout=20).status
    except urllib.error.HTTPError as e:
        return e.code
seen = [status("/v1/completions", {"prompt": "To be", "max_tokens": 40}) for _ in range(4)]
sys.exit(0 if status("/health") == 503 and seen[-1] == 503 and set(seen) <= {200, 503} else f"{seen}")
PYTHON
    wait "$pid" || status=$?
    [ "$status" = 1 ] && [ "$(grep -c 'the device was lost' said)" = 1 ]
}
check "a server whose device is lost answers 503 and ends" serve_lost

# ---- calls that fail: every allocation, every submission, every wait, and the first and last call of everything else
say ""
"${run[@]}" --quiet >out 2>err && cp fake_driver.calls calls || fail "counting calls"
runs=0 bad=0
fails() { # FUNCTION CALL RESULT, or hang CALL
    local status=0
    [ "$1" = hang ] && say "hang $2" || say "fail $1 $2 $3"
    "${run[@]}" --quiet >out 2>err || status=$?
    runs=$((runs + 1))
    if [ "$status" -eq 0 ] && [ ! -s err ] && grep -qx '0 0 0' out; then # nobody needed it, or it was not called so often
        return
    fi
    if [ "$status" -ne 1 ] || [ "$(wc -l <err)" -ne 1 ] ||
        ! grep -qE '^doppler-exec: error: .*(close|compile|choose|update|install|see|try|look) ' err; then
        bad=$((bad + 1))
        echo "$*: status $status"
        sed 's/^/    | /' out err | tail -n 5
    fi
}
while read -r function n; do
    case $function in
    vkEnumerateDeviceExtensionProperties) continue ;; # layers of other projects ask for it too, and crash
    vkAllocateMemory) results=(-2 -1 -10) each=1 ;;
    vkQueueSubmit) results=(-4 -2) each=1 ;;
    vkWaitSemaphores) results=(-4 2) each=1 ;;
    vkMapMemory) results=(-5) each=1 ;;
    vkCreateComputePipelines | vkCreateShaderModule) results=(-2 -1000012000) each=0 ;;
    vkCreateInstance | vkCreateDevice) results=(-1 -3 -7 -13) each=0 ;;
    *) results=(-2) each=0 ;;
    esac
    for result in "${results[@]}"; do
        for ((call = 1; call <= n; call++)); do
            [ "$each" -eq 1 ] || [ "$call" -eq 1 ] || [ "$call" -eq "$n" ] || continue
            fails "$function" "$call" "$result"
        done
    done
    [ "$function" != vkQueueSubmit ] || for ((call = 1; call <= n; call++)); do
        fails hang "$call"
    done
done <calls
if [ "$bad" -eq 0 ] && [ "$runs" -gt 60 ]; then
    pass "$runs calls that fail: a line with the next step"
else
    fail "$runs calls that fail" "$bad without a line with the next step"
fi
finish
