# Registers, spills and occupancy of kernels as AMD's driver of Mesa (RADV) makes them, without a device (its null winsys compiles for any
# family and runs nothing): no kernel of a target file spills on its device, and kernels of one token have four waves on a SIMD at least.
# One model by default.  With the argument `whole` (the long form) golden models and shapes of real ones, on more families, and with
# the RADV of bookworm-backports, which has matrix units, where it can be had.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
driver=$(compgen -G '/usr/share/vulkan/icd.d/radeon_icd*.json' | head -n 1)
if [ -z "$driver" ]; then
    skip "kernels on RADV" "it is not here (package mesa-vulkan-drivers)"
    finish
fi
libraries=

on() { # FAMILY COMMAND...
    local family=$1
    shift
    env RADV_FORCE_FAMILY="$family" VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" \
        LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}

made() { # FAMILY: a table of the plan's kernels, all of which the driver takes
    on "$1" "$EXEC" p.plan --report >report && tail -n 1 report | grep -q ': \([0-9]*\) of \1 kernels made'
}

# Columns: kernel, local, subgroup, registers, spilled, scratch, shared, waves, code.
no_spills() { ! awk 'NF == 9 && NR > 1 && ($5 + $6 > 0)' report | grep .; }
waves() { # LEAST
    ! awk -v least="$1" 'NF == 9 && $1 ~ /^(gemv|few|expert_(subgroup|each)|attention_decode)/ && $8 < least' report | grep . &&
        grep -q '^gemv' report
}

kernels() { # FAMILY TARGET MODEL [OPTION...]
    local family=$1 target=$2 model=$3 name
    name="$family $target $(basename "$3")"
    shift 3
    check "$name: compiles" on "$family" "$DOPPLERC" "$model" -o p.plan --quiet --target "$target" "$@" || return
    check "$name: the driver takes all kernels" made "$family" || return
    check "$name: no spilled registers" no_spills
    check "$name: waves of decode kernels" waves 4
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
if [ -z "$whole" ]; then
    finish
fi

for model in mixtral qwen3_5 deepseek_v3 mamba2 gemma3_hd256; do
    kernels navi21 amd-rdna2 "$SRC/tests/golden/$model" --chunks 16,64
done
for shape in llama3.2-1b:2,q4_k llama3.1-8b:2,f16 qwen3-30b-a3b:2,q4_0 mamba2-2.7b:2,q8_0; do
    "$TOOLS/make_gguf" "${shape%,*}" "${shape#*,}" model.gguf empty >/dev/null
    for family in navi21 navi10 vega10; do
        kernels $family amd-rdna2 model.gguf --chunks 16,64,512 --rows 2,4 --sequences 4
    done
    for target in tier2 tier3; do
        kernels navi21 $target model.gguf --chunks 16,512
    done
done

# The RADV of bookworm-backports, unpacked here.
newer() {
    local options=(-o Dir::Etc::SourceList="$WORK/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$WORK/apt/lists"
        -o Dir::Cache="$WORK/apt/cache" -o APT::Sandbox::User=root)
    mkdir -p apt/lists/partial apt/cache/archives/partial
    echo "deb http://deb.debian.org/debian bookworm-backports main" >apt/sources.list
    timeout 300 apt-get "${options[@]}" -q update && timeout 300 apt-get "${options[@]}" -q download mesa-vulkan-drivers/bookworm-backports \
        libdrm2/bookworm-backports libdrm-amdgpu1/bookworm-backports || return
    for package in *.deb; do dpkg -x "$package" newer || return; done
    driver=$(compgen -G "$WORK/newer/usr/share/vulkan/icd.d/radeon_icd*.json" | head -n 1)
    libraries=$(dirname "$(find newer -name 'libvulkan_radeon.so')")
    libraries=$WORK/$libraries
    on navi31 "$EXEC" --list-devices 2>/dev/null | grep -q 'matrix units KHR'
}
if newer >newer.log 2>&1; then
    check "auto on RDNA 3" knows navi31 amd-rdna3
    for model in gemma3 gemma3_hd256 mixtral deepseek_v3 qwen3_5 falcon_h1; do
        kernels navi31 amd-rdna3 "$SRC/tests/golden/$model" --chunks 16,64,512 --rows 2,4 --sequences 4
    done
    for shape in llama3.2-1b:2,q4_k llama3.1-8b:2,f16 llama3.1-8b:2,q6_k qwen3-30b-a3b:2,q4_0; do
        "$TOOLS/make_gguf" "${shape%,*}" "${shape#*,}" model.gguf empty >/dev/null
        kernels navi31 amd-rdna3 model.gguf --chunks 16,64,512 --rows 2,4 --sequences 4
    done
else
    skip "kernels with matrix units on RADV" "no RADV of bookworm-backports could be had"
fi
finish
