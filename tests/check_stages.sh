# What dopplerc shows of its stages: dumps that read back, modules that are valid, a plan that says the same from both
# programs, reports in three forms.  The argument `whole` is the long form: more targets, and packed dot products of more
# types.
. "$(dirname "$0")/lib.sh"
whole=${1:-}

same_listing() { # MODEL TARGET
    "$DOPPLERC" "$1" --target "$2" --chunks 16 -o p.plan --quiet && "$DOPPLERC" "$1" --target "$2" --chunks 16 --emit plan --quiet >emitted &&
        "$EXEC" p.plan --disasm >listed && [ -s listed ] && cmp emitted listed
}

dumps() { # MODEL TARGET
    rm -rf dump
    "$DOPPLERC" "$1" --target "$2" --chunks 16 --dump-dir dump --check --quiet && [ -s dump/000-decode1-canon.ir ] &&
        "$TOOLS/../pass_golden" parse dump/*.ir
}

# SPIRV-Tools of 2023.1 do not know the KHR form of matrices (capability 6022): modules with it are left to the driver and to
# tests/unit/kernels/test_spirv_khr_matrix.c.
printf 'OpCapability Shader\nOpCapability CooperativeMatrixKHR\nOpCapability Linkage\nOpMemoryModel Logical Simple\n' |
    spirv-as -o khr.spv - 2>/dev/null && spirv-val khr.spv 2>/dev/null && khr=1 || khr=

valid() { # FILE.spv...
    [ -e "$1" ] && for f; do
        [ -z "$khr" ] && od -An -v -tx4 -w4 "$f" | grep -A1 -x ' 00020011' | grep -qx ' 00001786' && continue
        spirv-val --target-env vulkan1.2 "$f" || return
    done
}

# SPIR-V allows a decoration once (VUID 08737 of shader modules); spirv-val of 2023.1 does not look.
decorated_once() { # FILE.spv...
    [ -e "$1" ] && for f; do spirv-dis --raw-id "$f" 2>/dev/null; done |
        awk '/^; SPIR-V/ { split("", seen) } /^ *Op(Member)?Decorate / && seen[$0]++ { print; n++ } END { exit n > 0 }'
}

single_passes() { # MODEL
    "$DOPPLERC" "$1" --target tier1 -d PE --chunks 8 --quiet >printed && [ "$(grep -c '^# after fuse-prologue' printed)" -eq 3 ] &&
        [ "$(grep -c '^# after' printed)" -eq 6 ] && "$TOOLS/../pass_golden" parse printed
}

emitted() { # MODEL STAGE PATTERN
    "$DOPPLERC" "$1" --target tier1 --emit "$2" --quiet >emitted && grep -qa -e "$3" emitted
}

report() { # MODEL
    "$DOPPLERC" "$1" --target tier1 --chunks 8 --quiet --report >report.txt && grep -q 'dispatches per layer' report.txt &&
        "$DOPPLERC" "$1" --target tier1 --chunks 8 --quiet --report=report.json --report --report=report.html >again.txt &&
        cmp report.txt again.txt &&
        [ "$("$TOOLS/expect" print report.json format)" = "doppler-report 1" ] &&
        [ "$("$TOOLS/expect" print report.json schedules.0.dispatches_per_layer)" -le 6 ] &&
        grep -q '<svg' report.html && grep -q '^:root {' report.html && grep -q '^const tip' report.html &&
        ! grep -qE '@(title|body|report\.[a-z]+)@' report.html && ! grep -qE 'https?://|<link|src=' report.html
}

# Few chunk sizes: each is another schedule of the same regions.
for pair in llama:nvidia-hopper gpt2:tier1 ${whole:+llama:lavapipe llama:tier3 gemma3:tier2}; do
    model=${pair%:*} target=${pair#*:} path=$SRC/tests/golden/${pair%:*}
    check "$model $target: --emit plan is --disasm" same_listing "$path" $target
    check "$model $target: dumps read back" dumps "$path" $target
    if command -v spirv-val >/dev/null; then
        check "$model $target: modules are valid" valid dump/*.spv
        check "$model $target: nothing is decorated twice" decorated_once dump/*.spv
        [ $target != nvidia-hopper ] || [ -n "$khr" ] ||
            skip "$model $target: modules with matrices in the KHR form are valid" "this spirv-val does not know them"
    else
        skip "$model $target: modules are valid" "no spirv-val (package spirv-tools)"
    fi
done
check "unfused: compiles" "$DOPPLERC" "$SRC/tests/golden/gemma3" --target tier1 --no-fuse --chunks 16 --dump-dir dump0 --quiet &&
    command -v spirv-val >/dev/null && check "unfused: modules are valid" valid dump0/*.spv
# Packed dot products come into the modules as bare SPIR-V.
for type in q8_0 q4_0 attn=q4_k,ffn=q6_k,embed=q5_k; do
    for variant in gemv_subgroup_i8 gemv_i8; do
        [ -n "$whole" ] || [ $type-$variant = q8_0-gemv_i8 ] || [ $type-$variant = attn=q4_k,ffn=q6_k,embed=q5_k-gemv_subgroup_i8 ] || continue
        rm -rf dump8
        check "$type $variant: compiles" "$DOPPLERC" "$SRC/tests/golden/gemma3" --target nvidia-hopper --quant $type --chunks 1 \
            --force gemv=$variant --dump-dir dump8 --quiet && command -v spirv-val >/dev/null &&
            check "$type $variant: modules are valid" valid dump8/*_i8-*.spv
    done
done
# Codebooks on matrix units, the other way (schedule: coop_late_books).
sed 's/coop_late_books: 0/coop_late_books: 1/' "$SRC/examples/targets/nvidia-hopper.yaml" >late.yaml
late() {
    "$DOPPLERC" "$SRC/tests/golden/gemma3" --target "$WORK/late.yaml" --quant iq3_s --chunks 512 --emit glsl --quiet >late.glsl &&
        grep -q '^DOP_HALVES_BOOK(iq3_s)' late.glsl
}
check "codebooks that become halves late" late
check "-d prints single passes" single_passes "$SRC/tests/golden/llama"
check "--emit ir" emitted "$SRC/tests/golden/llama" ir '^graph decode1(T=1'
check "--emit regions" emitted "$SRC/tests/golden/llama" regions '^region @1 gemv'
check "--emit nest" emitted "$SRC/tests/golden/llama" nest '^nest gemv_subgroup'
check "--emit glsl" emitted "$SRC/tests/golden/llama" glsl '^#version 460'
# A choice that every workgroup repeats before its products: one condition stands around all that one of them stores, and
# nothing waits behind the choice, because what is staged next does not read it.
choice() {
    "$DOPPLERC" "$SRC/tests/golden/phimoe" --target lavapipe --emit glsl --quiet |
        awk '/^\/\/ kernel/ { here = /expert_up/ }
            here && /if \(DOP_GROUP.x == 0u\)/ { conditions++ }
            behind && /DOP_STEP|barrier/ { waits++ }
            { behind = here && /^    dop_choose\(\);/; choices += behind }
            END { exit choices != 1 || conditions != 1 || waits > 0 }'
}
check "a choice before products" choice
modules() { # of both targets, one file each, as --dump-dir has them
    "$DOPPLERC" "$SRC/tests/golden/llama" --target tier1,tier3 --chunks 8 --emit spirv --quiet | tar xv -C "$WORK" >modules.txt &&
        [ "$(grep -c -- '-tier1-' modules.txt)" -ge 8 ] && [ "$(grep -c -- '-tier3-' modules.txt)" -ge 8 ] || return
    while read -r file; do
        [ "$(head -c 4 "$file" | od -An -tx4)" = " 07230203" ] || return
    done <modules.txt
}
check "--emit spirv is an archive of modules" modules
check "--report in three forms" report "$SRC/tests/golden/gemma3"
check "--explain by op" "$DOPPLERC" "$SRC/tests/golden/llama" --target tier1 --explain attn
check_fails "--explain of nothing" 2 "no region has that op" "$DOPPLERC" "$SRC/tests/golden/llama" --target tier1 --explain zzz
check_fails "--emit of nothing" 2 "known are ir, regions, nest, glsl, spirv and plan" "$DOPPLERC" "$SRC/tests/golden/llama" --emit zzz
# Every pass can be left out but those that make regions, their order and their places, and the code is still code.
for pass in canon hoist-last-row split-norms hoist-row-scale expand-weights split-kv split-argmax merge-siblings fuse-prologue \
    fuse-epilogue meet-products share-row fuse-rows merge-rows; do
    check "without $pass" "$DOPPLERC" "$SRC/tests/golden/gemma3" --target tier1 --chunks 16 --skip $pass --emit glsl --quiet
done
for pass in regions order place; do
    check_fails "not without $pass" 2 "needs what pass \`$pass\` makes: do not skip it" \
        "$DOPPLERC" "$SRC/tests/golden/llama" --target tier1 --skip $pass -o skipped.plan --quiet
done
finish
