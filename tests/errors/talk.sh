# -i at a terminal: editing, history, several lines, a paste, signals, a full context.
. "$(dirname "$0")/../lib.sh"
demo=$SRC/examples/shakespeare-gemma3
if ! command -v python3 >/dev/null; then
    skip "-i at a terminal" "there is no python3"
    finish
fi
check "a plan" "$DOPPLERC" "$demo" -o plain.plan --ctx 64 --chunks 8 --target lavapipe --quiet
cp -r "$demo" chat
printf '%s' "{% for m in messages %}{{ '<start_of_turn>' + m['role'] + '\n' + m['content'] + '<end_of_turn>\n' }}{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}" >chat/chat_template.jinja
check "a plan with a chat format" "$DOPPLERC" chat -o chat.plan --ctx 128 --chunks 8 --target lavapipe --quiet
check "-i at a terminal" python3 "$SRC/tests/errors/terminal.py" "$EXEC" chat.plan plain.plan "$WORK"
tail -n 1 .out
printf 'hi\r\n/undo\r\n/quit\r\nmore\r\n' | "$EXEC" chat.plan -i -n 2 --temp 0 --quiet >said 2>err
check "lines of a file of DOS" sh -c '[ "$(wc -l <said)" = 1 ] && grep -q "forgot \"hi\" and" err'
check "a command says nothing more" [ "$(printf '/new\n/drop auto\n' | "$EXEC" chat.plan -i --quiet 2>&1 | wc -l)" = 1 ]
check_fails "an input that cannot be read" 1 "cannot read standard input: Is a directory" \
    sh -c '"$1" chat.plan -i -n 2 --quiet <.' sh "$EXEC"
finish
