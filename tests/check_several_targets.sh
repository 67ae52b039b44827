# Several targets in one plan: a device takes the first that it can run, kernels and weights are there once, and what none
# of them fits is said for each.
. "$(dirname "$0")/lib.sh"
golden=$SRC/tests/golden/llama
"$TOOLS/expect" forced "$golden/expected.json" . >tokens

compile() { # LIST PLAN [OPTION...]
    defaults "--chunks 8" "${@:3}"
    "$DOPPLERC" "$golden" --target "$1" -o "$2" --quiet "${OPTIONS[@]}"
}

takes() { # PLAN TARGET: what the device at hand takes
    "$EXEC" "$1" --tokens "1 2" -n 1 -v --print-ids >out 2>err && grep -q "^doppler-exec: target: $2$" err
}

once() { # the weights, of which both plans of one target have all
    a=$(stat -c %s a.plan) c=$(stat -c %s c.plan) both=$(stat -c %s b.plan)
    weights=$("$EXEC" a.plan --info --json | grep -o '"weights": [0-9]*,' | grep -o '[0-9]*')
    echo "$a and $c bytes apart, $both together, $weights of them weights"
    [ "$weights" -gt 100000 ] && [ "$both" -le $((a + c - weights)) ]
}

kernels() { # fewer than both have apart: what is the same is there once
    local n=() plan
    for plan in d e f; do
        n+=("$("$EXEC" $plan.plan --info | grep -oE '^kernels +[0-9]+' | grep -oE '[0-9]+')")
    done
    echo "${n[*]}"
    [ "${n[2]}" -lt $((n[0] + n[1])) ]
}

listed() {
    "$EXEC" b.plan --info >info && grep -q '^target  *lavapipe: subgroup 8' info && grep -q '^ *tier3: .*nothing special' info &&
        [ "$(grep -c '^ *decode1:.*(tier3)$\|^schedules *decode1:.*(lavapipe)$' info)" -eq 2 ] &&
        grep -q '^memory .*(lavapipe)$' info && grep -q '^ .* cache .*(tier3)$' info &&
        "$EXEC" b.plan --trace-kernels | grep -q 'target=tier3'
}

stages() { # both targets in every form that is printed, told apart
    "$DOPPLERC" "$golden" --target lavapipe,tier3 --chunks 8 --emit plan --quiet >emitted && "$EXEC" b.plan --disasm | cmp - emitted &&
        "$DOPPLERC" "$golden" --target lavapipe,tier3 --chunks 8 --emit ir --quiet | grep -qx '# target tier3' &&
        "$DOPPLERC" "$golden" --target lavapipe,tier3 --chunks 8 --report --quiet | grep -q 'target tier3' &&
        "$DOPPLERC" "$golden" --target lavapipe,tier3 --chunks 8 --explain qkv --quiet | grep -qx 'target tier3' &&
        "$DOPPLERC" "$golden" --target lavapipe,tier3 --chunks 8 --dump-dir stages -o x.plan --quiet &&
        ls stages | grep -q 'tier3-decode1-place.ir' && ls stages | grep -q 'lavapipe-gemv'
}

check "lavapipe compiles" compile lavapipe a.plan
check "tier3 compiles" compile tier3 c.plan
check "both compile" compile lavapipe,tier3 b.plan
check "both are listed" listed
check "both are printed" stages
check "weights are stored once" once
for pair in tier2:d tier3:e tier2,tier3:f; do
    check "${pair%:*} with an f32 cache compiles" compile "${pair%:*}" "${pair#*:}.plan" --kv f32 --ctx 128
done
check "equal kernels are stored once" kernels
compile lavapipe,tier3 again.plan -j 1
check "the same bytes" cmp b.plan again.plan
check "the other order compiles" compile tier3,lavapipe r.plan
check "tier3 runs everywhere" takes r.plan tier3
check "tier3: agrees with the reference" "$TOOLS/agree" r.plan tokens 5e-4 "$golden/logits.f32"
check "a file among them" compile tier3,"$SRC/examples/targets/lavapipe.yaml" y.plan
if "$EXEC" --list-devices | grep -q 'subgroup 8,'; then
    check "lavapipe is taken" takes b.plan lavapipe
    check "lavapipe: agrees with the reference" "$TOOLS/agree" b.plan tokens 2e-2 "$golden/logits.f32"
    check "what cannot run is passed over: compiles" compile nvidia-hopper,tier1,tier3 later.plan
    check "what cannot run is passed over" takes later.plan tier3
    check "nothing fits: compiles" compile nvidia-hopper,tier1 none.plan --chunks 16
    # One line, which says it of both.
    matrices="cooperative matrix (KHR), cooperative matrix sums of f16 (KHR)"
    for part in "none of the plan's targets can run here: nvidia-hopper needs $matrices, which " \
        "; tier1 needs subgroups of 32 invocations and "; do
        check_fails "nothing fits: $part" 1 "$part" "$EXEC" none.plan --tokens 1 -n 1
    done
else
    skip "which one is taken" "this device is not lavapipe"
fi
refused() { # NAME TEXT LIST
    check_fails "$1" 2 "$2" "$DOPPLERC" "$golden" -o x.plan --quiet --target "$3"
}
refused "one twice" "tier1 is there twice" tier1,tier3,tier1
refused "an empty one" "expected names or files, separated by commas" tier1,,tier3
refused "an end" "expected names or files, separated by commas" tier1,
refused "an unknown one" "unknown target tier9" tier1,tier9
check_fails "a report of several" 2 "is about one target" "$DOPPLERC" "$golden" --target tier1,tier3 --report=x.html
check_fails "one that cannot" 1 "target tier3 lacks f16_storage" "$DOPPLERC" "$golden" --target tier1,tier3 --kv f16 -o x.plan --quiet

# A table that was changed: the digest says so.
at=$(LC_ALL=C grep -obUaP 'lavapipe\x00' b.plan | head -n 1 | cut -d: -f1)
cp b.plan bad.plan
printf 'X' | dd of=bad.plan bs=1 seek="$at" conv=notrunc status=none
check_fails "a changed table" 1 "the plan is damaged: the digest of section STRINGS does not match" "$EXEC" bad.plan --info
finish
