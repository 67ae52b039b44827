# The first contact with a driver that refuses kernels, or gets them wrong: a model that doppler-exec compiles itself gets other kernels,
# which is said once and remembered for the device and its driver; a plan is refused in one line that says how to compile it again.
# With the argument `whole` (the long form) also the latter.
# The drivers are the one that computes nothing (tests/driver/fake_driver.c) and lavapipe with sums that are wrong
# (tests/driver/wrong_sums.c).
. "$(dirname "$0")/../lib.sh"
export LD_LIBRARY_PATH=$TOOLS/as_written # the compiler whose shaders are remembered
model=$SRC/tests/golden/llama
small=(--ctx 64 --chunks 8)
ask=(--tokens "1 2 3" -n 3)
plans=$XDG_CACHE_HOME/doppler/plans
remembered() { cat "$plans"/*.avoid 2>/dev/null | tail -n 1 | tr , '\n' | sort | paste -sd ,; } # threads tell in any order
sum=350 label=248 # instructions of SPIR-V

# ---- a driver that refuses kernels ------------------------------------------------------------------------------------
cp "$TOOLS/fake_driver.so" "$TOOLS/fake_driver.json" .
fake=(env VK_DRIVER_FILES="$WORK/fake_driver.json" VK_ICD_FILENAMES="$WORK/fake_driver.json")
say() { printf '%s\n' "$@" >fake_driver.txt; }
run() { "${fake[@]}" "$EXEC" "$model" "${small[@]}" "${ask[@]}" "$@" >out 2>err; }
notes() { [ "$(grep -c ' refuses .* or gets that wrong: plans for it do without from now on$' err)" = "$1" ] && grep -q ' 0 0 0$\|^0 0 0$' out; }
says_nothing() { "$@" && [ ! -s err ]; }

say ""
check "a device that no target file names" run
check "two ways to try it are offered in one line" [ "$(grep -c 'no target file is for Fake Device.*: --check .* --tune --target-out' err)" = 1 ]
check "nothing is avoided" [ -z "$(remembered)" ]
check "again, and it is not said again" says_nothing run --quiet

say "refuse $sum"
check "a driver that refuses sums over subgroups" run
check "nothing is written before another plan is there" [ "$(wc -l <out)" = 1 ]
check "it runs, and is told what is wrong" grep -q "the driver of Fake Device refuses .*subgroup.* or gets that wrong" err
check "notes of the compiler are not repeated" [ "$(grep -c 'no tokenizer' err)" -le 1 ]
first=$(remembered)
check "what to avoid is remembered" [ -n "$first" ]
info() { "${fake[@]}" "$EXEC" "$model" "${small[@]}" --info; }
check "the next time it is not said again" run
check "not even once" notes 0
check "another plan for that device does without at once" says_nothing run --kv f32 --quiet
check "as the list is the same" [ "$(remembered)" = "$first" ]
say "refuse $sum" "device discrete Other"
check "another device has a list of its own" run
check "which it finds out" sh -c 'grep -q "driver of Other refuses" err'
printf 'doppler-exec\nrm -rf\n' >list
for list in "$plans"/*.avoid; do cp list "$list"; done
check "a damaged list is none" run
check "and is made anew" [ "$(remembered)" = "$first" ]

# Where nothing is left there is one line, and nothing is remembered.
say "refuse $label" "device discrete Useless"
lists=$(find "$plans" -name '*.avoid' | wc -l)
check_fails "a driver that refuses everything" 1 "the driver of Useless refuses kernel" \
    "${fake[@]}" "$EXEC" "$model" "${small[@]}" "${ask[@]}" --quiet
check "nothing is remembered of that" [ "$(find "$plans" -name '*.avoid' | wc -l)" = "$lists" ]

# ---- kernels that a text does not need --------------------------------------------------------------------------------
# They are not made, so that a driver cannot refuse them and nobody waits for them.
late() { "${fake[@]}" "$EXEC" "$model" --ctx 64 --chunks 8,64 -j 1 --quiet "$@" >out 2>err; }
made() { sed -n 's/^vkCreateComputePipelines //p' fake_driver.calls; }
say "device discrete Late"
check "a device that takes all" late --tokens "1 2 3" -n 1
one=$(made)
check "more tokens" late --tokens "1 2 3" -n 3
few=$(made)
check "need more kernels: $few and not $one" [ "$few" -gt "$one" ]
say "device discrete Late" "fail vkCreateComputePipelines $((few + 1)) -13"
check "a driver that refuses the next one is not asked" says_nothing late --tokens "1 2 3" -n 3
check "no more are made" [ "$(made)" = "$few" ]
check "logits of all positions" late --tokens "1 2 3" -n 0 --logits rows.f32
check "need those of one schedule" [ "$(made)" -lt "$few" ]

# ---- plans ------------------------------------------------------------------------------------------------------------
say "refuse $sum"
"$DOPPLERC" "$model" -o plain.plan "${small[@]}" --target tier1 --quiet
check_fails "a plan with such a kernel" 1 "or compile the plan again with --avoid " "${fake[@]}" "$EXEC" plain.plan "${ask[@]}" --quiet
check "one that does without them" "$DOPPLERC" "$model" -o without.plan "${small[@]}" --target tier1 --quiet --avoid "$first" --avoid row_subgroup
check "runs" "${fake[@]}" "$EXEC" without.plan "${ask[@]}" --quiet
check "and says what it does without" sh -c '"$1" without.plan --info | grep -q "^options .*avoided .*row_subgroup"' sh "$EXEC"
check_fails "an unknown kernel" 2 "--avoid: no kernel few_more; known:" "$DOPPLERC" "$model" -o no.plan --target tier1 --avoid few,few_more
check_fails "no kernel at all" 2 "--avoid: no kernel ; known:" "$DOPPLERC" "$model" -o no.plan --target tier1 --avoid few,
check_fails "all that there are" 1 "no kernel for argmax at %" "$DOPPLERC" "$model" -o no.plan --target tier1 --avoid argmax --quiet
check_fails "one that is asked for elsewhere" 1 "the target avoids it" "$DOPPLERC" "$model" -o no.plan --target tier1 --avoid gemv_subgroup \
    --force qkv=gemv_subgroup --quiet
check_fails "for plans it is too late" 2 "--avoid is part of the plan" "$EXEC" plain.plan --avoid few
printf 'base: tier1\navoid: [few, gemv_subgroup]\n' >target.yaml
check "a target file may say it" "$DOPPLERC" "$model" -o file.plan "${small[@]}" --target target.yaml --quiet
check "which is followed" \
    sh -c '"$1" file.plan --info | grep -q "^options .*avoided few gemv_subgroup$" &&
        ! "$1" file.plan --trace-kernels | grep -q "variant=gemv_subgroup "' sh "$EXEC"
printf 'base: tier1\navoid: [few, gemv subgroup]\n' >target.yaml
check_fails "with a name that is none" 1 "avoid: gemv subgroup is no kernel" "$DOPPLERC" "$model" -o no.plan --target target.yaml
printf 'base: tier1\navoid: few\n' >target.yaml
check_fails "or no list" 1 "avoid: expected a list of kernels" "$DOPPLERC" "$model" -o no.plan --target target.yaml

[ "${1:-}" = whole ] || finish

# ---- a driver that gets kernels wrong -----------------------------------------------------------------------------------
export XDG_CACHE_HOME=$WORK/wrong
plans=$XDG_CACHE_HOME/doppler/plans
wrong=(env LD_PRELOAD="$TOOLS/wrong_sums.so" ASAN_OPTIONS=verify_asan_link_order=0)
"$DOPPLERC" "$model" -o right.plan "${small[@]}" --target lavapipe --quiet
want=$("$EXEC" right.plan "${ask[@]}" --temp 0 --print-ids --quiet)
check_fails_check() { ! "${wrong[@]}" "$EXEC" right.plan --check --quiet >out 2>err && grep -q '^MISS' out && [ "$(wc -l <err)" = 1 ]; }
check "--check finds them in a plan" check_fails_check
check "and says what to do" grep -q 'compile the plan again with --avoid [a-z_,]*_rows' err
heals() { "${wrong[@]}" "$EXEC" "$model" "${small[@]}" --check >out 2>err && tail -n 1 out | grep -q '^\([0-9]*\) of \1 kernels agree'; }
check "in a model it goes on with other kernels" heals
check "which is said" grep -q 'refuses .* or gets that wrong: plans for it do without from now on$' err
check "and remembered" [ -n "$(remembered)" ]
right() { [ "$("${wrong[@]}" "$EXEC" "$model" "${small[@]}" "${ask[@]}" --temp 0 --print-ids --quiet 2>err)" = "$want" ] && [ ! -s err ]; }
check "so that it computes what is right, without another word" right
finish
