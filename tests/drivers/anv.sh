# Spilled registers of kernels as Intel's driver of Mesa (ANV) makes them, without a device: a stub of the kernel's interface
# (i915_stub.c, built here with the headers of libdrm-dev) is loaded before the driver, which makes kernels for any device that it knows
# and runs none.  No kernel of a target file spills on its devices but those of the table below.  The driver of Debian 12 knows Xe-LP
# (Tiger Lake) and Xe-HPG (DG2), that of bookworm-backports Xe2 (Battlemage, Lunar Lake) too.  One model by default; with the argument
# `whole` (the long form) golden models and shapes of real ones, and the newer driver, where it can be had.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_newer.sh"
. "$SRC/tests/drivers/lib_table.sh"
whole=${1:-}
driver=$(compgen -G '/usr/share/vulkan/icd.d/intel_icd*.json' | head -n 1)
headers=
for folder in /usr/include/libdrm; do [ -e "$folder/i915_drm.h" ] && headers=$folder; done
if [ -z "$driver" ] || [ -z "$headers" ]; then
    skip "kernels on ANV" "the driver or headers are not here (packages mesa-vulkan-drivers, libdrm-dev)"
    finish
fi
check "the stub" cc -std=gnu11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -shared -fPIC -O1 -isystem "$headers" -o i915_stub.so \
    "$SRC/tests/drivers/i915_stub.c" -ldl || finish

# DEVICE: id, slices, subslices of each
declare -A devices=([dg2]=56a0,8,4 [tgl]=9a49,1,6 [mtl]=7d55,2,4 [bmg]=e20b,5,4 [lnl]=64a0,2,4)
with=(env "LD_PRELOAD=$WORK/i915_stub.so") # how a command is run with the driver's libraries
on() { # DEVICE COMMAND...
    local device=${devices[$1]}
    shift
    I915_STUB=$device VK_ICD_FILENAMES=$driver VK_DRIVER_FILES=$driver ASAN_OPTIONS=verify_asan_link_order=0 "${with[@]}" "$@"
}

# Most registers (of 32 bytes) that a kernel may spill, by its beginning; nothing where it is not here.
bounds=
least_waves=
wanted=8

knows() { # DEVICE TARGET
    on "$1" "$DOPPLERC" "$SRC/tests/golden/llama" -o auto.plan --chunks 8 2>said && grep -q "target $2: for Intel" said
}

if ! on dg2 "$EXEC" --list-devices | grep -q 'Intel.*subgroup 32 (8 to 32)'; then
    skip "kernels on ANV" "this driver does not start on the stub"
    finish
fi
check "auto on Xe-HPG" knows dg2 intel-xe-hpg
check "auto on Xe-LP" knows tgl intel-xe-lpg
kernels dg2 intel-xe-hpg "$SRC/examples/shakespeare-gemma3" --chunks 64
[ -n "$whole" ] || finish
wanted=
#   matmul_tiled: tiles of deepseek_v32's widest products
#   scan_subgroup: states of mamba2-2.7b, of which a lane has four times as many in a subgroup of 8 as in one of 32
bounds='matmul_tiled 3 scan_subgroup 78'
broadly dg2:intel-xe-hpg tgl:intel-xe-lpg

if newer bookworm-backports mesa mesa-vulkan-drivers libdrm2 libdrm-amdgpu1 >newer.log 2>&1; then
    driver=$(compgen -G "$NEWER/usr/share/vulkan/icd.d/intel_icd*.json" | head -n 1)
    with=(newer_run --preload "$WORK/i915_stub.so")
    check "auto on Xe2" knows bmg intel-xe2
    check "auto on Lunar Lake" knows lnl intel-xe2
    check "auto on Meteor Lake" knows mtl intel-xe-lpg
    check "auto on Xe-HPG with matrix units" knows dg2 intel-xe-hpg-xmx
    broadly bmg:intel-xe2 lnl:intel-xe2 dg2:intel-xe-hpg dg2:intel-xe-hpg-xmx mtl:intel-xe-lpg
else
    skip "kernels on Xe2" "no ANV of bookworm-backports could be had"
fi
finish
