# --serve in the public forms of other APIs: Anthropic's Messages and OpenAI's Responses answer what chat completions answer, and
# refuse what is wrong in their own form.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "the public forms of other APIs" "there is no python3"; finish; }
. "$(dirname "$0")/../lib_serve.sh"
check "a plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.plan --ctx 1024 --chunks 32 --sequences 4 --rows 4 \
    --target lavapipe --quiet
cp demo.plan before.plan
serve() { start log "$EXEC" demo.plan --serve 0 "$@"; } # OPTION...
ask() { python3 "$SRC/tests/serve/protocols.py" "$url" "$@"; }
cat >chat.jinja <<'END'
{% for tool in tools or [] %}{{ tool | tojson }} as <tool_call>{"name", "arguments"}</tool_call>
{% endfor %}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}
END
cat >think.jinja <<'END'
{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' -}}
{% if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif -%}
{{ m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n<think>\n' }}
END
serve --chat-template ./chat.jinja --serve-tokens 160
check "the same answers in three forms" ask same
check "what coding agents send" ask recorded
check "wrong values, sizes and depths" ask hostile:7
failures() { curl -s "$url/metrics" | grep -E 'answers_total.*5xx.* [1-9]'; }
check "no failure of the server's own" eval '! failures'
odd() { python3 "$SRC/tests/serve/odd.py" "$url" "$1"; }
check "members that few clients send: honoured, without effect, named or refused" odd members
check "llama.cpp's own requests" odd native
check "requests that are written in odd ways" odd wire
check "conversations that look odd" odd shapes
stop
printf 'a\nb\nc priority=5\n' >keys
serve --api-key-file keys --log json
check "clients and priorities" ask fair
counts='"promptTokens":[0-9]+,"reusedTokens":[0-9]+,"writtenTokens":24,"firstTokenMs":[0-9.]+'
check "the line of a request" grep -qE '"client":"[^"]+".*"status":200,"ms":[0-9.]+.*"model":"[^"]+",'"$counts" log
stop
ids=2,4,483,344,262,445,5,262,99,700,1000,1500,3,77,900,45,600,601,602,603,604,605,606,607,608,609,610,611,612,613,614,615,616,617,618
text='What say you, my lord of Westmoreland?'
printf '%s' "$text" >text
check "logits of a prompt" "$EXEC" demo.plan --tokens "${ids//,/ }" --logits logits -n 0 --quiet
nll=$("$EXEC" demo.plan --ppl text --quiet | sed -E 's/.*"nll_per_token":([0-9.]+).*/\1/')
serve
check "log-probabilities of prompts, as scoring harnesses ask for them" ask "scored:logits:$ids:$text:$nll"
refused() { curl -s -H 'Content-Type: application/json' -d '{}' "$url/infill" | grep -q 'no tokens for filling in the middle'; }
check "no filling in without tokens for it" refused
stop
check "a model with transformers' logits" "$DOPPLERC" "$SRC/tests/golden/llama" -o demo.plan --target lavapipe --ctx 64 --chunks 7 \
    --kv f32 --sequences 2 --quiet
serve --tokenizer "$SRC/examples/shakespeare-gemma3"
check "scores are those of transformers" ask "harness:$SRC/tests/golden/llama"
stop
check "the plan of before" cp before.plan demo.plan
sed 's/<pad>/<|fim_prefix|>/g; s/<unk>/<|fim_suffix|>/g; s/<end_of_turn>/<|fim_middle|>/g' \
    "$SRC/examples/shakespeare-gemma3/tokenizer.json" >tokenizer.json
check "systemd's protocols" python3 "$SRC/tests/serve/systemd.py" "$EXEC" demo.plan --tokenizer tokenizer.json
serve --tokenizer tokenizer.json
check "filling in" ask infill
stop
printf 'key-1\n' >keys
serve --chat-template ./think.jinja --api-key-file keys
check "reasoning" ask thinking key-1
refused() { curl -s -H 'X-Api-Key: key-2' -H 'Content-Type: application/json' -d '{}' "$url/v1/messages" | grep -q '"authentication_error"'; }
check "a wrong key" refused
stop
sed "s/<start_of_turn>model.*/<start_of_turn>model\\\\n' + ('<think>' if thinking is not defined or thinking else '<think><\/think>') }}/" \
    think.jinja >variable.jinja
sed "s/<think>.n' }}\$/' }}/" think.jinja >none.jinja
serve --chat-template ./variable.jinja
check "switches of reasoning by a variable of the template" ask switches:variable
stop
serve --chat-template ./none.jinja
check "switches of reasoning that the template lacks" ask switches:none
stop
serve --chat-template ./chat.jinja --store 3
check "stored responses" ask store
stop
finish
