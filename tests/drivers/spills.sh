# Registers, spills and occupancy of kernels as AMD's driver of Mesa (RADV) makes them, without a device (its null winsys compiles for any
# family and runs nothing): no kernel of a target file spills on its device, and kernels of one token have four waves on a SIMD at least.
# One model by default.  With the argument `whole` (the long form) golden models and shapes of real ones, on more families, and with
# the RADV of bookworm-backports, which has matrix units, where it can be had.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_newer.sh"
. "$SRC/tests/drivers/lib_table.sh"
whole=${1:-}
driver=$(compgen -G '/usr/share/vulkan/icd.d/radeon_icd*.json' | head -n 1)
if [ -z "$driver" ]; then
    skip "kernels on RADV" "it is not here (package mesa-vulkan-drivers)"
    finish
fi
bounds= least_waves=4 wanted=
with=() # how a command is run with the driver's libraries

on() { # FAMILY COMMAND...
    local family=$1
    shift
    RADV_FORCE_FAMILY=$family VK_ICD_FILENAMES=$driver VK_DRIVER_FILES=$driver "${with[@]}" "$@"
}

# auto knows the maker: subgroups of 64, which a driver may be asked for.
knows() { # FAMILY TARGET
    on "$1" "$DOPPLERC" "$SRC/tests/golden/llama" -o auto.plan --chunks 8 2>said && grep -q "target $2: for Null hardware" said &&
        "$EXEC" auto.plan --info | grep -q "^target *$2: subgroup 64"
}

if ! on navi21 "$EXEC" --list-devices | grep -q 'Null hardware'; then
    skip "kernels on RADV" "this one has no null winsys"
    finish
fi
check "auto on RDNA 2" knows navi21 amd-rdna2
kernels navi21 amd-rdna2 "$SRC/examples/shakespeare-gemma3" --chunks 64
kernels gfx1100 amd-rdna2 "$SRC/examples/shakespeare-gemma3" # without matrix units, which this driver does not have
# What is for any GPU does not spill there either, nor where 8 query heads share a head of keys.
kernels gfx1100 tier1 "$SRC/examples/shakespeare-gemma3" --chunks 64
"$TOOLS/make_gguf" qwen3-30b-a3b:2 q4_0 groups.gguf empty >/dev/null
kernels gfx1100 tier1 groups.gguf --chunks 16
check "vega10: compiles" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o vega10.plan --quiet --target tier2 &&
    check "vega10: the driver takes all kernels" made vega10 vega10.plan
[ -n "$whole" ] || finish

broadly navi21:amd-rdna2 navi10:amd-rdna2
# The driver of Debian 12 gives a kernel 132 registers on gfx1100 where others give 256.
broadly gfx1100:amd-rdna2 gfx1100:tier1
for shape in llama3.2-1b:2,q4_k llama3.1-8b:2,f16 qwen3-30b-a3b:2,q4_0; do
    "$TOOLS/make_gguf" "${shape%,*}" "${shape#*,}" model.gguf empty >/dev/null
    for target in tier2 tier3; do
        kernels navi21 $target model.gguf --chunks 16,512
    done
    # No file is for the generation before RDNA, whose invocations have 64 registers in workgroups of 1024 (half of RDNA's):
    # some kernels spill there.
    check "vega10 ${shape%,*}: the driver takes all kernels" made vega10 tier2-model.plan
    rm -f -- *.plan
done

if newer bookworm-backports mesa mesa-vulkan-drivers libdrm2 libdrm-amdgpu1 >newer.log 2>&1; then
    driver=$(compgen -G "$NEWER/usr/share/vulkan/icd.d/radeon_icd*.json" | head -n 1)
    with=(newer_run)
    check "auto on RDNA 3" knows navi31 amd-rdna3
    check "auto on RDNA 4 while its driver has no matrix units" knows gfx1201 amd-rdna2
    # Matrices of RDNA 4 have the shape of RDNA 3's, and its registers are as many; this driver knows them on RDNA 3 only.
    broadly navi31:amd-rdna3 navi31:amd-rdna4 gfx1201:amd-rdna2
else
    skip "kernels with matrix units on RADV" "no RADV of bookworm-backports could be had"
fi
finish
