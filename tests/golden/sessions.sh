# --session, the commands of -i, a context that gets full, Ctrl-C; and what of it is refused.
. "$(dirname "$0")/../lib.sh"
demo=$SRC/examples/shakespeare-gemma3
ids() { "$EXEC" "$1" --temp 0 --quiet --print-ids "${@:2}"; }

check "a plan" "$DOPPLERC" "$demo" -o demo.plan --ctx 64 --chunks 8 --sequences 2 --target lavapipe --quiet
whole=$(ids demo.plan -p "ROMEO:" -n 20)
first=$(ids demo.plan -p "ROMEO:" -n 8 --session s.bin)
rest=$(ids demo.plan -n 12 --session s.bin)
[ "$first $rest" = "$whole" ] && pass "a session goes on" || fail "a session goes on" "$first | $rest | $whole"
check "a prompt alone is read for a session" [ "$(ids demo.plan -p "ROMEO:" -n 0 --session z.bin)" = "" ]
check "which goes on behind it" [ "$(ids demo.plan -n 8 --session z.bin)" = "$first" ]
check "a prompt is added to a session" test -n "$(ids demo.plan -p " and" -n 2 --session s.bin)"
check_fails "a session that leaves no room" 1 "does not fit the plan's context of 64" \
    "$EXEC" demo.plan -p "and" -n 60 --session s.bin --quiet
head -c 1000 s.bin >short.bin
check_fails "a session cut short" 1 "cut short: 1000 of" "$EXEC" demo.plan -n 2 --session short.bin
{ cat s.bin; printf X; } >longer.bin
check_fails "a session that something stands behind" 1 "damaged: it has $(wc -c <s.bin) bytes, and the file $(wc -c <longer.bin)" \
    "$EXEC" demo.plan -n 2 --session longer.bin
{ head -c 900 s.bin; printf X; tail -c +902 s.bin; } >changed.bin
check_fails "a changed one" 1 "damaged: its digest does not fit" "$EXEC" demo.plan -n 2 --session changed.bin
echo nothing >none.bin
check_fails "a file that is none" 1 "not a saved sequence" "$EXEC" demo.plan -n 2 --session none.bin
[ "$(cat none.bin)" = nothing ] && pass "which stays as it is" || fail "which stays as it is"

# ---- -i --------------------------------------------------------------------------------------------------------------
talk() { # PLAN [OPTION...]: lines from standard input
    "$EXEC" "$1" -i -n 10 --temp 0 --quiet "${@:2}" 2>said
}
printf 'ROMEO:\n' | talk demo.plan >one
printf 'JULIET:\n/undo\n/undo\nROMEO:\n' | talk demo.plan >undone
check "/undo" sh -c 'tail -n "$(wc -l <one)" undone | cmp - one'
check "/undo of nothing says so" grep -q "nothing to undo" said
check "/undo says what it undid" grep -q 'forgot "JULIET:" and its answer; 0 turns are left' said
printf '"""\n\nROMEO:\nO\n"""\n"""x"""\n/undo\n/undo\n"""and\nso' | talk demo.plan >/dev/null
check "a text of several lines" grep -q 'forgot "ROMEO: O" and' said
check "one that is whole in its line" grep -q 'forgot "x" and' said
check "one that does not end" grep -q 'the input ended before """' said
printf 'JULIET:\nROMEO:\n/drop\n/drop 3\n/drop\n/drop x\n/undo now\nROMEO:\n' | talk demo.plan >dropped
check "/drop forgets the oldest turns" sh -c 'grep -c "forgot the oldest 1 of" said | grep -qx 2'
check "/drop of nothing, or of what is no number" sh -c 'grep -q "there is nothing to forget" said && grep -q "/drop takes a number" said'
check "a command that takes nothing" grep -q "/undo takes nothing behind it" said
check "and nothing of them is left" sh -c 'tail -n "$(wc -l <one)" dropped | cmp - one'
printf '/retry\nROMEO:\n/retry\n' | "$EXEC" demo.plan -i -n 10 --temp 1 -s 3 --quiet >tried 2>said
check "/retry answers the line again" sh -c '[ "$(wc -l <tried)" -ge 2 ] && [ "$(sed -n 1p tried)" != "$(tail -n 1 tried)" ]'
check "/retry at the start" grep -q "there is no line to answer again" said
printf 'ROMEO:\n/save k.bin\nKING:\n/load k.bin\nKING:\n/reset\nROMEO:\n/help\n/nothing\n//x\n/quit\nmore\n' | talk demo.plan --session t.bin >all
check "/save, /load and /reset" sh -c 'n=$(wc -l <one); head -n "$n" all | cmp - one'
check "/help" grep -q "^/undo" said
check "an unknown command" grep -q "unknown command /nothing" said
check "a file of its own" grep -q "restored from k.bin, 1 turn$" said
printf 'KING:\n' | talk demo.plan --session k.bin >king
check "goes on in another run" grep -qF "$(head -n 1 king)" all
check "kept at the end" test -s t.bin
printf '/save\n/load nothing.bin\n' | talk demo.plan >/dev/null
check "/save without a file" grep -q "/save needs a file" said
check "/load of a file that is not there" grep -q "nothing.bin: cannot open" said
for i in 1 2 3 4 5 6 7 8; do echo "the king of line $i"; done >kings
status=0
talk demo.plan --session f.bin <kings >full || status=$?
check "a full context ends what nobody can be asked about" [ $status -eq 1 -a "$(grep -c . full)" -ge 2 ]
check "in a line that says what can be done" \
    grep -q "^doppler-exec: error: the context of 64 tokens is full ([0-9]* with this line): /drop forgets" said
check "and what was said is kept" test -s f.bin
{ echo /drop auto && cat kings; } | talk demo.plan >full
check "/drop auto: a full context drops the oldest turns" grep -q "the context of 64 tokens is full: the oldest" said
[ "$(grep -c . full)" -ge 8 ] && pass "and goes on" || fail "and goes on"

# The same with a chat format, where the conversation is rendered again from its messages.
cp -r "$demo" chat
turns="{% for m in messages %}{{ '<start_of_turn>' + m['role'] + '\\n' + m['content'] + '<end_of_turn>\\n' }}{% endfor %}"
answer="{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
printf '{"chat_template": "%s%s"}\n' "$turns" "$answer" >chat/tokenizer_config.json
check "a plan with a chat format" "$DOPPLERC" chat -o chat.plan --ctx 128 --chunks 8 --target lavapipe --quiet
printf 'Speak.\n' | talk chat.plan >one
printf 'Who is it?\n/undo\nSpeak.\n/save c.bin\n/load c.bin\n/undo\nSpeak.\n' | talk chat.plan >undone
check "/undo in a conversation" sh -c 'tail -n "$(wc -l <one)" undone | cmp - one'
{ echo /drop auto; for i in 1 2 3 4 5 6; do echo "Tell me more of the king, $i."; done; } | talk chat.plan --session c2.bin >full
check "a full conversation" grep -q "the context of 128 tokens is full" said
printf 'And then?\n' | talk chat.plan --session c2.bin >more
check "is kept as far as it is known" test -s more
# States of prompts in files, by which another run goes on.
yes word | head -n 70 | tr '\n' ' ' >line
talk chat.plan <line >one
for run in 1 2; do
    talk chat.plan --prompt-cache prompts --cache-memory 1M <line >kept
    check "an answer with files of prompts, run $run" cmp one kept
done
check "there are files" test -n "$(ls prompts/*.states)"
check_fails "a size that is none" 2 "--cache-memory 3Q: expected a size, as 8G or 500M" "$EXEC" chat.plan -i --cache-memory 3Q </dev/null
check_fails "a folder that is none" 1 "prompts cannot be kept here" "$EXEC" chat.plan -i --prompt-cache one </dev/null
check_fails "files without prompts that come again" 2 "is for prompts that come again" "$EXEC" chat.plan -p x --prompt-cache prompts
# A format that writes earlier answers in another way, as Qwen3 leaves out old reasoning; lines that are not taken.
old="{% if loop.last and m['role'] == 'assistant' %}{{ '<think>' }}{% endif %}"
printf '{"chat_template": "%s%s"}\n' "${turns/"{{"/"$old{{"}" "$answer" >chat/tokenizer_config.json
check "a plan with it" "$DOPPLERC" chat -o rewrites.plan --ctx 128 --chunks 8 --target lavapipe --quiet
printf 'Speak.\nWho is it?\nSay on.\n' | talk rewrites.plan >one
check "earlier messages that are written anew" test "$(grep -c . one)" -ge 3
{ printf 'Speak.\nWho is it?\nNot this.\n/undo\n'; yes word | head -n 300 | tr '\n' ' '; printf '\nSay on.\n'; } | talk rewrites.plan >undone
check "a line that is too long is left out, and nothing is forgotten for it" grep -q "the line has [0-9]* tokens and the plan's context is 128" said
check "and the conversation goes on as without it" sh -c 'tail -n "$(sed 1,2d one | wc -l)" undone >last; sed 1,2d one | cmp - last'
"$EXEC" chat.plan -p "no conversation" -n 2 --session plain.bin --quiet >/dev/null
check_fails "a session that is no conversation" 1 "is no conversation" "$EXEC" chat.plan -i --session plain.bin </dev/null

# ---- Ctrl-C ------------------------------------------------------------------------------------------------------------
mkfifo lines
long() { exec "$EXEC" demo.plan -i -n 60 --temp 0 --ignore-eos --quiet --chunk 1 "$@"; }
printf 'ROMEO:\n/quit\n' | long >uncut 2>said
long <lines >answers 2>said &
pid=$!
exec 3>lines
echo "ROMEO:" >&3
for _ in $(seq 200); do
    [ -s answers ] && break
    sleep 0.05
done
kill -INT "$pid"
cp answers begun
echo "/quit" >&3
exec 3>&-
status=0
wait "$pid" || status=$?
[ "$status" -eq 0 ] && pass "Ctrl-C ends an answer, not the program" || fail "Ctrl-C ends an answer, not the program" "status $status"
if [ "$(wc -c <begun)" -ge "$(wc -c <uncut)" ]; then
    skip "and no more of it is written" "the answer was complete before"
else
    check "and no more of it is written" [ "$(wc -c <answers)" -lt "$(wc -c <uncut)" ]
fi

# ---- --logprobs, -n -1, --bench -b -----------------------------------------------------------------------------------
"$EXEC" demo.plan -p "ROMEO:" -n 3 --temp 0 --quiet --json --logprobs 4 >probs.json
# Greedy: each pick is the first of its alternatives.
n=$(grep -oE '"id":([0-9]+),"logprob":(-[0-9.e-]+),"top":\[\{"id":\1,"logprob":\2\}(,\{[^}]*\}){3}\]' probs.json | wc -l)
[ "$n" -eq 3 ] && pass "the likeliest of each token" || fail "the likeliest of each token" "$(cat probs.json)"
check_fails "--logprobs without --json" 2 "--logprobs goes with --json" "$EXEC" demo.plan -p "ROMEO:" -n 1 --logprobs 1
n=$(ids demo.plan -p "ROMEO:" -n -1 --ignore-eos | wc -w)
[ "$n" -eq 62 ] && pass "-n -1 goes to the end of the context" || fail "-n -1 goes to the end of the context" "$n tokens"
check "--bench -b" sh -c '"$1" --bench demo.plan -p 0 -n 4 -b 1,2 -r 1 -o csv --quiet | grep -q "tg4b2"' sh "$EXEC"
check_fails "more sequences than the plan holds" 1 "tg4b3 needs 3 sequences and the plan holds 2 at once" \
    "$EXEC" --bench demo.plan -p 0 -n 4 -b 3 -r 1 --quiet
finish
