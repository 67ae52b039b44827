# Devices that nobody has met (tests/driver/fake_driver.c), as first contact sees them: each is listed in one line, --target auto compiles for
# it and the plan runs there, or it is refused in one line.
. "$(dirname "$0")/../lib.sh"
cp "$TOOLS/fake_driver.so" "$TOOLS/fake_driver.json" .
export VK_DRIVER_FILES=$WORK/fake_driver.json VK_ICD_FILENAMES=$WORK/fake_driver.json
unset VK_INSTANCE_LAYERS
model=$SRC/tests/golden/llama

say() { # LINE...: the settings of the next processes; what is listed has a line for each device, which a terminal can show
    local devices
    printf '%s\n' "$@" >fake_driver.txt
    devices=$(grep -c '^device ' fake_driver.txt)
    "$EXEC" --list-devices >list 2>&1 && [ "$(wc -l <list)" = "$((devices > 0 ? devices : 1))" ] && ! LC_ALL=C.UTF-8 grep -q '[[:cntrl:]]' list
}
runs() { # SUBGROUP: of the plan's target; empty: any
    "$DOPPLERC" "$model" -o odd.plan --target auto --chunks 8 --ctx 64 >said 2>&1 || { cat said; return 1; }
    ! LC_ALL=C grep -q '[^ -~]' said || { cat -v said; return 1; }
    "$EXEC" odd.plan --info | grep -q "^target .*: subgroup ${1:-[0-9]*}[, ]" || { "$EXEC" odd.plan --info | grep '^target'; return 1; }
    "$EXEC" odd.plan --tokens "1 2 3" -n 3 --quiet >out 2>err && grep -qx '0 0 0' out && [ ! -s err ] || { cat out err; return 1; }
}
works() { # NAME SUBGROUP LINE...
    local name=$1 subgroup=$2
    shift 2
    check "$name: listed" say "$@"
    check "$name: works" runs "$subgroup"
}
refused() { # NAME TEXT LINE...: by both programs
    local name=$1 text=$2
    shift 2
    check "$name: listed" say "$@"
    check_fails "$name: no plan for it" 1 "$text" "$DOPPLERC" "$model" -o no.plan --target auto --quiet
    check_fails "$name: no plan runs there" 1 "$text" "$EXEC" kept.plan --tokens "1 2 3" -n 3 --quiet
}
works "an honest device" 32 ""
cp odd.plan kept.plan
works "subgroups of 128" 128 "limit subgroup 128"
works "subgroups of 1" 1 "limit subgroup 1"
works "subgroups of 0" 0 "limit subgroup 0"
works "subgroups of 24" 0 "limit subgroup 24"
works "subgroups of 256" 0 "limit subgroup 256"
works "subgroups of 8 to 128" 128 "limit subgroup 128" "limit subgroup_least 8"
works "sizes of subgroups that contradict each other" 32 "limit subgroup_least 64"
works "16 KiB of shared memory" 32 "limit shared 16384"
works "no 8-bit storage" 32 "without storage8"
works "no 16-bit storage" 32 "without storage16"
works "no arithmetic of 16 bits" 32 "without f16"
works "storage buffers of 128 MiB" 32 "limit range 134217728"
works "one family of queues, which only computes" 32 "queue 2"
works "matrix units of a shape that no kernel has" 32 "matrix 32 4 7"
works "matrix units of no rows" 32 "matrix 0 16 16"
works "Vulkan 1.9" 32 "api 9"
works "allocations of any size" 32 "limit alloc 0xffffffffffffffff"
works "two devices, the first of which cannot be used" 32 "device discrete Old" "device discrete New" "for 0" "without address"
works "a name that steers terminals" 32 $'device discrete Red\e[31m\tTab\rBack\x7f\xc2\x9b2J\xff'
works "a name with quotes" 32 "device discrete A\"B'C\\D{}%s%n: \$(id)"
works "a long name" 32 "device discrete $(printf 'x%.0s' {1..80})"
works "memory that the host sees, and no other" 32 "heap 1 67108864" "type 7 0"
refused "no buffer addresses" "no usable Vulkan device: Fake Device lacks buffer device addresses" "without address"
refused "no timeline semaphores" "lacks timeline semaphores" "without timeline"
refused "Vulkan 1.0" "lacks Vulkan 1.2 (it has 1.0)" "api 0"
refused "no queue that computes" "lacks a compute queue" "queue 4"
finish
