#!/usr/bin/env bash
# Conversations outside the server: any template, its name or file, system messages; special tokens in prompts.
. "$(dirname "$0")/../lib.sh"

demo=$SRC/examples/shakespeare-gemma3
mkdir model
cp "$demo/tokenizer.json" "$demo/config.json" model/
echo '[{"role": "user", "content": "hi"}]' >c.json

# renders TEXT [OPTION...]: what the folder "model" makes of c.json
renders() {
    local want=$1
    shift
    printf '%b' "$want" >want
    check "renders ${want:0:40} $*" bash -c '"$0" --tokenizer model --render-chat c.json "$@" >got && cmp got want' "$EXEC" "$@"
}
refuses() { # TEXT [OPTION...]
    check_fails "$*" 1 "$1" "$EXEC" --tokenizer model --render-chat c.json "${@:2}"
}

# ---- templates ------------------------------------------------------------------------------------------------------
refuses "the model has no chat template"
renders '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n' --chat-template chatml
printf '%s' '{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}{% endfor %}' >model/chat_template.jinja
renders '<|start_of_role|>user<|end_of_role|>hi'
renders '<|start_of_role|>system<|end_of_role|>Be brief.<|start_of_role|>user<|end_of_role|>hi' --system 'Be brief.'
renders '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n' \
    --system 'Be brief.' --chat-template chatml
echo '{{ messages[0].content }}-{{ bos_token }}{{ eos_token }}' >own
renders 'hi-<bos><eos>' --chat-template own
renders 'hi-<bos><eos>' --chat-template ./own
refuses 'chat format "nonsense" is not known; known are chatml, gemma, llama2' --chat-template nonsense
refuses 'none.jinja: error: cannot open' --chat-template none.jinja
echo '{% if x %}' >broken.jinja
refuses 'broken.jinja: error: chat template' --chat-template broken.jinja
# The tokenizer's own end, not the first one of a list that ends generation.
cat >model/tokenizer_config.json <<'JSON'
{"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": "unused"}
JSON
echo '{"eos_token_id": [5, 1]}' >model/generation_config.json
renders 'hi-<bos><eos>' --chat-template own
sed -i 's/"bos_token": "<bos>"/"bos_token": null/; s/"<eos>"/{"content": "<start_of_turn>"}/' model/tokenizer_config.json
renders 'hi-<start_of_turn>' --chat-template own
mkdir model/additional_chat_templates
echo 'tools' >model/additional_chat_templates/tool_use.jinja
renders '<|start_of_role|>user<|end_of_role|>hi'
echo '{"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]}' >c.json
renders 'tools'

# ---- system messages --------------------------------------------------------------------------------------------------
echo '[{"role": "system", "content": "Mine."}, {"role": "user", "content": "hi"}]' >c.json
renders '<|start_of_role|>system<|end_of_role|>Mine.<|start_of_role|>user<|end_of_role|>hi' --system 'Yours.'
echo '{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": false}' >c.json
renders '<|im_start|>system\nYours.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n' --system 'Yours.' --chat-template chatml
echo '{% if messages[0].role == "system" %}{{ raise_exception("System role not supported") }}{% endif %}x' >refuses.jinja
refuses '--system: chat template: the chat template refuses this conversation: System role not supported' \
    --chat-template refuses.jinja --system y
echo '{{ messages[-1].content }}' >drops.jinja
check "a format that leaves it out" bash -c '"$0" --tokenizer model --render-chat c.json --chat-template drops.jinja --system y \
    >got 2>said && [ "$(cat got)" = hi ] && grep -q "leaves out the system message" said' "$EXEC"
refuses '--system is not valid UTF-8' --chat-template own --system $'\xff'

# ---- with a plan ------------------------------------------------------------------------------------------------------
cp "$demo/model.safetensors" model/
check "a plan of a model with any format" "$DOPPLERC" model -o chat.plan --ctx 128 --chunks 8 --target lavapipe --quiet
# tokens N [OPTION...]: of the prompt
tokens() {
    local got
    got=$("$EXEC" chat.plan "${@:2}" -n 1 --temp 0 --json --quiet | grep -o '"promptTokens": *[0-9]*' | grep -o '[0-9]*$')
    check "$1 tokens of ${*:2}" test "$got" = "$1"
}
printf '<start_of_turn>user\nhi<end_of_turn>\n' >prompt
tokens 8 -f prompt
tokens 23 -f prompt --no-special
tokens 2 -p hi
tokens 2 -p '<bos>hi'
tokens 3 -p '<bos><bos>hi'
tokens 6 -p '<bos>hi' --no-special
"$EXEC" chat.plan --chat -p hi -n 4 --temp 0 --quiet >one
"$EXEC" chat.plan -p '<|start_of_role|>user<|end_of_role|>hi' -n 4 --temp 0 --quiet --no-display-prompt >two
check "--chat of any format" cmp one two
"$EXEC" chat.plan --chat -p hi -n 4 --temp 0 --quiet --system 'Be a king.' >one
"$EXEC" chat.plan -p '<|start_of_role|>system<|end_of_role|>Be a king.<|start_of_role|>user<|end_of_role|>hi' -n 4 --temp 0 \
    --quiet --no-display-prompt >two
check "--chat with --system" cmp one two
echo hi | "$EXEC" chat.plan -i -n 4 --temp 0 --quiet --system 'Be a king.' >one
check "-i with --system" test "$(cat one)" = "$(cat two)"
# A conversation of two lines is what its rendering is.
chat() { printf "$@" | "$EXEC" chat.plan -i -n 4 --temp 0 --quiet --chat-template chatml --system S; }
answer=$(chat 'hi\n')
{
    printf '<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n' "$answer"
    printf '<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n'
} >prompt
"$EXEC" chat.plan -f prompt -n 4 --temp 0 --quiet --no-display-prompt >two
check "-i: the second line sees the whole conversation" test "$(chat 'hi\nWho?\n')" = "$answer"$'\n'"$(cat two)"
check_fails "-i with a format that is not known" 1 'chat format "x" is not known' "$EXEC" chat.plan -i --chat-template x </dev/null
check "--tokenize: what prompts get, unless told" bash -c 'printf "%s\n" "{\"text\": \"<bos>hi\"}" "{\"text\": \"<bos>hi\", \"add_special\": true}" \
    "{\"text\": \"<bos>hi\", \"parse_special\": false, \"add_special\": false}" >lines; "$0" chat.plan --tokenize lines >ids &&
    [ "$(head -n 2 ids | tr "\n" " ")" = "[2,445] [2,2,445] " ] && [ "$(tail -n 1 ids | tr , "\n" | wc -l)" -eq 5 ]' "$EXEC"
finish
