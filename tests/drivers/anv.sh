# Spilled registers of kernels as Intel's driver of Mesa (ANV) makes them, without a device: a stub of the kernel's interface
# (i915_stub.c, built here with the headers of libdrm-dev) is loaded before the driver, which makes kernels for any device that it knows
# and runs none.  No kernel of a target file spills on its devices but those of the table below.  The driver of Debian 12 knows Xe-LP
# (Tiger Lake) and Xe-HPG (DG2).  One model by default; with the argument `whole` (the long form) golden models and shapes of real ones.
. "$(dirname "$0")/../lib.sh"
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
declare -A devices=([dg2]=56a0,8,4 [tgl]=9a49,1,6)
on() { # DEVICE COMMAND...
    local device=${devices[$1]}
    shift
    env I915_STUB="$device" LD_PRELOAD="$WORK/i915_stub.so" VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" \
        ASAN_OPTIONS=verify_asan_link_order=0 "$@"
}

# Most registers (of 32 bytes) that a kernel may spill, by its beginning; nothing where it is not here.
#   matmul_tiled, expert_tiled: no subgroups are in them, so that the driver takes invocations by 16, for which tiles of two matrices lack two
bounds='matmul_tiled 2 expert_tiled 2'

made() { on "$1" "$EXEC" p.plan --report >report && tail -n 1 report | grep -q ': \([0-9]*\) of \1 kernels made'; }

# Columns: kernel, local, subgroup, registers, spilled, scratch, shared, waves, code.
few_spills() {
    ! awk -v bounds="$bounds" 'BEGIN { n = split(bounds, b, " "); for (i = 1; i < n; i += 2) most[b[i]] = b[i + 1] }
        NF == 9 && NR > 1 { name = $1; sub("/.*", "", name); if ($5 > most[name] + 0) print }' report | grep .
}
subgroups() { awk -v want="$1" 'NF == 9 && /_subgroup/ && $3 == want { n++ } END { exit n == 0 }' report; }

kernels() { # DEVICE TARGET MODEL [OPTION...]
    local device=$1 target=$2 model=$3 name
    name="$device $target $(basename "$3")"
    shift 3
    check "$name: compiles" "$DOPPLERC" "$model" -o p.plan --quiet --target "$target" "$@" || return
    check "$name: the driver takes all kernels" made "$device" || return
    check "$name: spilled registers" few_spills
    check "$name: the smallest subgroups" subgroups 8
}

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

for model in mixtral qwen3_5 deepseek_v3 mamba2 gemma3_hd256; do
    kernels dg2 intel-xe-hpg "$SRC/tests/golden/$model" --chunks 16,64
    kernels tgl intel-xe-lpg "$SRC/tests/golden/$model" --chunks 16,64
done
for shape in llama3.2-1b:2,q4_k llama3.1-8b:2,f16 qwen3-30b-a3b:2,q4_0; do
    "$TOOLS/make_gguf" "${shape%,*}" "${shape#*,}" model.gguf empty >/dev/null
    kernels dg2 intel-xe-hpg model.gguf --chunks 16,512 --rows 2,4 --sequences 4
done
finish
