# What doppler-exec must refuse although plan and device are fine: prompts, numbers, files.
. "$(dirname "$0")/../lib.sh"
"$DOPPLERC" "$SRC/tests/golden/llama" -o ids.plan --quiet --chunks 8 || exit 1
"$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o text.plan --quiet --chunks 8 || exit 1

# refuses STATUS TEXT ARGUMENT...: named after its arguments
refuses() {
    check_fails "$(echo "${*:3}" | tr -cd ' -~' | cut -c1-60)" "$1" "$2" "$EXEC" "${@:3}"
}

# Which options there are, and which go together: seventy command lines that a sanitized program refuses as it does every other one.
options() {
    # ---- usage: status 2 ------------------------------------------------------------------------------------------------
    refuses 2 "no plan given"
    refuses 2 "unknown option --bogus; see --help" ids.plan --bogus
    refuses 2 "unknown option -m: the plan comes without an option: doppler-exec PLAN" -m ids.plan
    refuses 2 "unknown option -c: the context is part of the plan: dopplerc MODEL --ctx N" ids.plan -c 512
    refuses 2 "unknown option --ctx-size: the context is part of the plan" ids.plan --ctx-size=512
    refuses 2 "unknown option -t: -j N is for threads while loading" ids.plan -t 4
    refuses 2 "unknown option --n-predict: use -n N" ids.plan --n-predict 3
    refuses 2 "unknown option -ngl: the whole model runs on the device of --device" ids.plan -ngl 99
    # Options of several letters are options, not letters with a value.
    refuses 2 "unknown option -fa: attention is always one kernel" ids.plan -fa on
    refuses 2 "unknown option -no-cnv: a prompt is continued as it is" ids.plan -no-cnv
    refuses 2 "unknown option -sys: use --system TEXT" text.plan -sys x
    refuses 2 "unknown option -ot: the whole model runs" ids.plan -ot x
    refuses 2 "unknown option -hfr: use -hf USER/REPO" -hfr a/b
    refuses 2 "unknown option -ctk: use --kv" ids.plan -ctk q8_0
    refuses 2 "unknown option -prompt; did you mean --prompt?" text.plan -prompt x
    refuses 2 "unknown option -hfx; did you mean -hf?" -hfx a/b
    refuses 2 "unknown option -sm; see --help" ids.plan -sm none
    refuses 2 "unknown option -vv; see --help" ids.plan -vv
    check "a number at its letter" "$EXEC" ids.plan --quiet --tokens 1 -n1 -j2
    check "-1 at its letter" "$EXEC" ids.plan --quiet --tokens 1 -n0 -s-1
    # What would take the place of an earlier one.
    for twice in "-p a -p b" "--temp 0 --temp 1" "-n 3 --predict 5" "--device 0 --device 1" "--seed 1 -s 2"; do
        # shellcheck disable=SC2086
        refuses 2 "is given twice, the second time with \"${twice##* }\": give it once" text.plan $twice
    done
    refuses 2 "--embed is given twice" text.plan -p a --embed=mean --embed=last
    refuses 2 "-p, --prompt and -f, --file are two prompts: give one of them" text.plan -p a -f b
    refuses 2 "--tokens and --tokens-file are two prompts" ids.plan --tokens 1 --tokens-file b
    refuses 2 "-f, --file is a text to continue; --audio has no use for it" ids.plan --audio a -f b
    # Outputs are tried before anything is written to stdout.
    for output in --session --logits --features --profile; do
        refuses 1 "/nonexistent/x: error: cannot write: No such file or directory" text.plan -p x -n 2 $output /nonexistent/x \
            $([ $output != --features ] || echo --image "$SRC/tests/lib.sh")
    done
    refuses 1 ".: error: cannot write: Is a directory" text.plan -p x -n 2 --session .
    refuses 1 "/nonexistent/x: error: cannot write: No such file or directory" text.plan -f "$0" --imatrix-out /nonexistent/x
    refuses 1 "/nonexistent/x.png: error: cannot write: No such file or directory" text.plan --draw x -o /nonexistent/x.png
    check "and nothing is left where they can be" sh -c 'mkdir tried && ! "$0" text.plan -p x -n 2 --session tried/s --device none &&
        [ -z "$(ls tried)" ]' "$EXEC"
    refuses 2 "unknown option --temperature; did you mean --temp?" ids.plan --temperature 0.5
    refuses 2 "unknown option --port: --serve [HOST:]PORT starts the server" ids.plan --port 8080
    refuses 2 "unknown option --host: --serve HOST:PORT has both" ids.plan --serve 8080 --host 0.0.0.0
    refuses 2 "unknown option --api-key: keys are in a file" ids.plan --serve 8080 --api-key=x
    refuses 2 "unknown option --parallel: sequences are part of the plan" ids.plan --serve 8080 --parallel 4
    refuses 2 "unknown option --profile: --profile measures by itself, without --bench" --bench ids.plan --profile x.html
    refuses 2 'and there is also "ROMEO:": a prompt is given with -p TEXT' text.plan ROMEO:
    refuses 1 "config.json: error: not a Doppler plan: this is a JSON file: name the model's folder that it is in" \
        "$SRC/tests/golden/llama/config.json" -p x
    refuses 2 '--json-schema names a file: put "{}" into one' text.plan -p x --json-schema '{}'
    refuses 2 '--grammar names a file: put "root ::= "a"" into one' text.plan -p x --grammar 'root ::= "a"'
    check "-h is --help" cmp <("$EXEC" -h) <("$EXEC" --help)
    refuses 2 "-n needs a value: N" ids.plan -n
    refuses 2 '-n needs a whole number, not "x"' ids.plan -n x
    refuses 2 "-n must lie between -1 and" ids.plan -n -2
    refuses 2 "-n must lie between -1 and" ids.plan -n 99999999999999999999
    refuses 2 "--temp" ids.plan --temp -1
    refuses 2 "--temp" ids.plan --temp hot
    refuses 2 "--top-p" ids.plan --top-p 2
    refuses 2 "--top-k" ids.plan --top-k 1.5
    refuses 2 "" ids.plan other.plan --tokens 1

    # What would be ignored is refused.
    refuses 2 "--info and --check are two things to do: ask for one of them" ids.plan --check --info
    refuses 2 "-p, --prompt is for text to continue; --ppl has no use for it" text.plan --ppl x -p y
    refuses 2 "--json is for generation from a prompt, and --info; --list-devices has no use for it" --list-devices --json
    refuses 2 "--temp is for generation and --serve; --check has no use for it" ids.plan --check --temp 0
    refuses 2 "--device is for what runs on a device; --info has no use for it" ids.plan --info --device 0
    refuses 2 'no device "" among' ids.plan --tokens 1 -n 1 --device ""
    refuses 2 "--gpu-loop is for generation; --embed has no use for it" ids.plan --embed --tokens 1 --gpu-loop 2
    refuses 2 "--models-memory is about several models: give --models DIR" text.plan --serve 0 --models-memory 10
    refuses 2 "--models-idle is about several models: give --models DIR" text.plan --serve 0 --models-idle 10
    refuses 2 "--serve-queue is for --serve; generation has no use for it" ids.plan --tokens 1 --serve-queue 3
    refuses 2 "--chat-template is for a conversation: add --chat or -i" text.plan -p x --chat-template chatml
    refuses 2 "--system is for a conversation: add --chat or -i" text.plan -p x --system y
    refuses 2 "--system is for --chat, -i, --render-chat and --serve; --info has no use for it" text.plan --info --system y
    refuses 2 "--no-special is for prompts in words; --check has no use for it" ids.plan --check --no-special
    refuses 2 "--grammar is for generation from a prompt; --interactive has no use for it" text.plan -i --grammar x
    refuses 2 "--stop needs a text to end before" text.plan -p x --stop ""
}
[ -n "${ASAN_OPTIONS:-}" ] || options

# No output takes the place of an input.
cp ids.plan own.plan
ln -s own.plan link.plan
echo 1 2 >own.html
digest=$(cat own.plan own.html | md5sum)
for output in own.plan link.plan; do
    refuses 2 "$output: error: this file is an input: name another one to write to" own.plan --tokens 1 -n 1 --logits $output
done
refuses 2 "own.html: error: this file is an input: name another one to write to" own.plan --tokens-file own.html -n 1 --profile own.html
cp own.plan own.plan.weights
refuses 2 "own.plan.weights: error: this file is an input: name another one to write to" own.plan --tokens 1 -n 1 --logits own.plan.weights
[ "$digest" = "$(cat own.plan own.html | md5sum)" ] && pass "every input is as it was" || fail "every input is as it was"

refuses 1 "pp8@d600 needs 608 positions, the plan's context is 512 and the model was trained for 512: give" \
    --bench ids.plan -p 8 -n 0 -d 600
refuses 2 "--drafts needs percentages, not 101" --bench ids.plan -p 0 -n 1 --drafts 60,101

# ---- a line of its own, and the right kind of plan -------------------------------------------------------------------
"$DOPPLERC" "$SRC/tests/golden/llama" -o tier3.plan --quiet --target tier3 --chunks 8 --ctx 64 || exit 1
hinted() { # OPTION...
    "$EXEC" tier3.plan --tokens 1 -n 1 "$@" 2>&1 >/dev/null | grep -c "tier3.plan: note: made for target tier3, and .* is a software device: "
}
if "$EXEC" --list-devices | grep -q '(software)'; then
    [ "$(hinted)" = 1 ] && pass "a plan for GPUs on a software device: a hint" || fail "a plan for GPUs on a software device: a hint"
    [ "$(hinted --quiet)" = 0 ] && pass "--quiet: no hint" || fail "--quiet: no hint"
    [ "$("$EXEC" ids.plan --tokens 1 -n 1 2>&1 >/dev/null | grep -c note)" = 0 ] && pass "no hint where it fits" || fail "no hint where it fits"
fi
apart() { # a text is on the way, and then the sequence cannot be kept
    local status=0
    bash -c 'trap "" XFSZ && ulimit -f 2 && exec "$0" text.plan --quiet -p ROMEO: -n 3 --temp 0 --ignore-eos --session full' \
        "$EXEC" >both 2>&1 || status=$?
    [ $status -eq 1 ] && head -n 1 both | grep -q '^ROMEO:' && grep -q '^doppler-exec: .*error: ' both
}
check "an error begins its own line" apart

# ---- prompts --------------------------------------------------------------------------------------------------------
refuses 1 "the plan has no tokenizer (the model came without one), which -p needs: give ids with --tokens" ids.plan -p x
check "ids need no tokenizer" "$EXEC" ids.plan --quiet --tokens "1 2 3" -n 2 --print-ids
refuses 1 "the prompt has no tokens" ids.plan --tokens ""
refuses 2 'token ids are whole numbers, not "x"' ids.plan --tokens "1 x"
refuses 1 "token id 320 is outside the vocabulary of 320" ids.plan --tokens "1 320"
refuses 1 "the text is not valid UTF-8: byte 0xff at offset 1" text.plan -p "$(printf 'a\377b')"
printf 'abc\360\237\230' >cut-utf8
refuses 1 "the text is not valid UTF-8: byte 0xf0 at offset 3" text.plan -f cut-utf8
refuses 1 "nowhere: error: cannot open: No such file or directory" text.plan -f nowhere
refuses 1 "nowhere: error: cannot open: No such file or directory" ids.plan --tokens-file nowhere
seq -s ' ' 1 600 | sed 's/[0-9]*/1/g' >long
refuses 1 "the prompt has 600 tokens and the plan's context 512: shorten it or compile with a larger --ctx" \
    ids.plan --tokens-file long
refuses 1 "-n 512 after a prompt of 2 tokens does not fit the plan's context of 512: use -n 510 or less" \
    ids.plan --tokens "1 2" -n 512
check "-n up to the context" "$EXEC" ids.plan --quiet --tokens "1 2" -n 510 --ignore-eos --print-ids

# ---- files ----------------------------------------------------------------------------------------------------------
refuses 1 "/nonexistent/x: error: cannot write: No such file or directory" ids.plan --tokens 1 -n 0 --logits /nonexistent/x
refuses 1 "/dev/full: error: cannot write: No space left on device" ids.plan --tokens 1 -n 0 --logits /dev/full
[ -c /dev/full ] && pass "/dev/full is still a device" || fail "/dev/full is still a device"
refuses 1 "nowhere: error: cannot open: No such file or directory" text.plan --ppl nowhere
# The disk fills up: what was there before stays, nothing half-written is left.
echo old >logits
seq -s ' ' 1 400 | sed 's/[0-9]*/1/g' >prompt400
check_fails "a file that outgrows the disk" 1 "logits: error: cannot write: File too large" \
    bash -c 'trap "" XFSZ && ulimit -f 8 && exec "$0" ids.plan --quiet --tokens-file prompt400 -n 0 --logits logits' "$EXEC"
[ "$(cat logits)" = old ] && pass "the old file stays" || fail "the old file stays"
[ -z "$(find . -name 'logits?*')" ] && pass "nothing half-written is left" || fail "nothing half-written is left"

# ---- closed streams -------------------------------------------------------------------------------------------------
once=("$EXEC" ids.plan --quiet --tokens "1 2" -n 1 --print-ids)
check_fails "stdout is closed" 1 "error: cannot write" bash -c '"$@" >&-' bash "${once[@]}"
check_fails "stdin is closed" 1 "error: cannot read" bash -c '"$@" <&-' bash "$EXEC" text.plan -n 1 -f -
check "stdin and stderr are closed" bash -c '"$@" <&- 2>&-' bash "${once[@]}"

# ---- compiled pipelines that cannot be kept -------------------------------------------------------------------------
set -- cache/doppler/pipelines-*.bin
check "pipelines are kept" test -s "$1"
"${once[@]}" >ids
printf X | dd of="$1" conv=notrunc status=none
check "a damaged file of pipelines" "${once[@]}"
check "is made anew" [ "$(head -c 3 "$1")" = DOP ]
rm "$1"
for i in 1 2 3 4; do "${once[@]}" >"together$i" & done
wait
check "four programs on one file of pipelines" cmp <(cat together1 together1 together1) <(cat together2 together3 together4)
check "which is whole afterwards" [ "$(head -c 3 "$1")" = DOP ]
rm "$1" && mkfifo "$1"
check "a pipe in its place is not waited for" timeout 60 "${once[@]}"
check "and stays" test -p "$1"
env -u HOME -u XDG_CACHE_HOME "${once[@]}" >homeless
check "no home" cmp ids homeless
check "a home that cannot be written to" env XDG_CACHE_HOME=/proc/nothing "${once[@]}"

# ---- a plan while it runs -------------------------------------------------------------------------------------------
# until COMMAND...: waits for its success
until_it() {
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.05
    done
}
mkfifo lines
cp text.plan used.plan
"$EXEC" used.plan -i -n 1 --temp 0 --ignore-eos <lines >answers 2>said &
pid=$!
exec 3>lines
until_it grep -q "the model has no chat template" said
check_fails "no plan is written over one that runs" 1 "used.plan: error: a program has this plan open: end it, or name" \
    "$DOPPLERC" "$SRC/tests/golden/llama" -o used.plan
printf 'a\377b\nROMEO:\n' >&3
until_it test -s answers
check "-i: a line that is no UTF-8 is left out" grep -q "the line is not valid UTF-8 at byte 2: it is left out" said
check "and the conversation goes on" test -s answers
: >used.plan
echo "JULIET:" >&3
exec 3>&-
status=0
wait "$pid" || status=$?
if [ $status -eq 1 ] && grep -q "^doppler-exec: .*/used.plan: error: the file was cut short" said; then
    pass "a plan that is cut short while it runs"
else
    fail "a plan that is cut short while it runs" "status $status: $(tail -n 1 said)"
fi
finish
