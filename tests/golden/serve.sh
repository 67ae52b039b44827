# --serve: every path, what is refused, limits, clients that misbehave, and how it ends; --json-schema and --grammar.
# The argument `whole` is the long form: 64 clients for a minute, a prefix that 50 requests share, OpenAI's own client and the
# page in a browser, where those are there.
. "$(dirname "$0")/../lib.sh"
demo=$SRC/examples/shakespeare-gemma3
. "$(dirname "$0")/../lib_serve.sh"

check "a plan" "$DOPPLERC" "$demo" -o demo.plan --ctx 512 --chunks 32 --sequences 8 --rows 8 --embed --target lavapipe --quiet
# What the program alone shows is shown by it, which starts in a half of the time.
check "a plan of one sequence" "$DOPPLERC" "$demo" -o one.plan --ctx 256 --chunks 32 --target lavapipe --quiet
cat >chat.jinja <<'END'
{% for tool in tools or [] %}{{ tool | tojson }} as <tool_call>{"name", "arguments"}</tool_call>
{% endfor %}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}
END
serve demo --chat-template ./chat.jinja --serve-body 64 --serve-receive 1 --temp 1 --serve-grace 2

# ---- what there is ----------------------------------------------------------------------------------------------------
ask 200 '^\{"status":"ok"\}$' /health
ask 200 '"id":"gemma3-5.0M","object":"model"' /v1/models
ask 200 '"n_ctx":512,"n_ctx_train":512\},"max_model_len":512,"context_length":512,' /v1/models/gemma3-5.0M
ask 404 '"code":"model_not_found"' /v1/models/gpt
ask 200 '<title>' /
ask 200 '^\{"tokens":\[[0-9, ]+\]\}$' /tokenize '{"content": "What say you?"}'
ask 200 '^\{"content":"What say you\?"\}$' /detokenize "$(sed 's/^{"tokens"/{"tokens"/' answer)"
# Special tokens in prompts are tokens, as /tokenize says; BOS is not doubled.
marks='<start_of_turn>user\nhi<end_of_turn>\n'
ask 200 '^\{"tokens":\[2,4,483,344,262,445,5,262\]\}$' /tokenize "{\"content\": \"$marks\", \"add_special\": true}"
ask 200 '^\{"tokens":\[2,445\]\}$' /tokenize '{"content": "<bos>hi", "add_special": true}'
ask 200 '"prompt_tokens":8,' /v1/completions "{\"prompt\": \"$marks\", \"max_tokens\": 1}"
ask 200 '"prompt_tokens":10,' /v1/completions "{\"prompt\": [\"$marks\", \"<bos>hi\"], \"max_tokens\": 1}"
ask 200 '"prompt_tokens":23,' /v1/completions "{\"prompt\": \"$marks\", \"max_tokens\": 1, \"parse_special\": false}"
ask 200 '"prompt_tokens":7,' /v1/completions "{\"prompt\": \"$marks\", \"max_tokens\": 1, \"add_special_tokens\": false}"
ask 400 'parse_special is true or false' /v1/completions '{"prompt": "hi", "max_tokens": 1, "parse_special": "no"}'
ask 200 '"prompt_tokens":8,' /v1/embeddings "{\"input\": \"$marks\"}"
ask 200 '"prompt_tokens":23,' /v1/embeddings "{\"input\": [\"$marks\"], \"parse_special\": false}"
want=$("$EXEC" demo.plan -p "ROMEO:" -n 12 --temp 0 --quiet --no-display-prompt --print-ids)
ask 200 '"finish_reason":"length".*"prompt_tokens":[0-9]+,"completion_tokens":12,' /v1/completions \
    '{"prompt": "ROMEO:", "max_tokens": 12, "temperature": 0, "logprobs": 0}'
text=$(sed -E 's/.*"text":("([^"\\]|\\.)*").*/\1/' answer)
ask 200 "$(echo "$want" | tr ' ' ,)" /tokenize "{\"content\": $text}"
ask 200 '"completion_tokens":12,' /v1/completions '{"prompt": "ROMEO:", "max_tokens": 12, "temperature": 0}'
check "the same where the device picks, with steps that run ahead" grep -qF "\"text\":$text" answer
# Penalties and biases change picks, the same in the program as in the server, greedy and drawn.
changed=(--presence-penalty 0.5 --frequency-penalty 0.7 --logit-bias 300=-100 --logit-bias 262+1.5)
fields='"presence_penalty": 0.5, "frequency_penalty": 0.7, "logit_bias": {"300": -100, "262": 1.5}'
text_of() { grep -oE '"text":"([^"\\]|\\.)*"'; }
for heat in 0 1; do
    "$EXEC" demo.plan -p "ROMEO:" -n 24 --temp $heat -s 7 "${changed[@]}" --json --quiet | text_of >changed
    ask 200 '"completion_tokens":24,' /v1/completions "{\"prompt\": \"ROMEO:\", \"max_tokens\": 24, \"temperature\": $heat, \"seed\": 7, $fields}"
    text_of <answer >served
    check "temperature $heat: the program's text" cmp served changed
    "$EXEC" demo.plan -p "ROMEO:" -n 24 --temp $heat -s 7 --json --quiet | text_of >plain
    check "and another one than without them" sh -c 'test -s plain && ! cmp -s plain changed'
done
check_fails "a bias without a number" 2 '--logit-bias needs ID=X, ID+X or ID-X, not "5"' "$EXEC" one.plan -p A --logit-bias 5
check_fails "a bias that is none" 2 '--logit-bias needs ID=X, ID+X or ID-X, not "5=nan"' "$EXEC" one.plan -p A --logit-bias 5=nan
check_fails "a bias of another model" 2 "token id 2048 is outside the vocabulary of 2048" "$EXEC" one.plan -p A --logit-bias 2048-1
ask 200 '"index":3,.*"prompt_tokens":4,"completion_tokens":12' /v1/completions '{"prompt": ["A", [300, 301]], "n": 2, "max_tokens": 3, "seed": 5}'
body='{"prompt": "KING", "max_tokens": 6, "seed": 7, "temperature": 1, "top_p": 0.9, "presence_penalty": 0.5, "logit_bias": {"300": -100}}'
ask 200 '"text":' /v1/completions "$body"
sed -E 's/.*("text":"([^"\\]|\\.)*").*/\1/' answer >first
ask 200 "" /v1/completions "$body"
check "a seed gives the same text again" sh -c 'sed -E "s/.*(\"text\":\"([^\"\\\\]|\\\\.)*\").*/\1/" answer | cmp - first'
ask 200 '"text":"[^"]*","usage"|"finish_reason":"stop"' /v1/completions '{"prompt": "KING", "max_tokens": 100, "stop": [" ", "e"], "seed": 1}'
ask 200 '"top_logprobs":\[\{.*"role":"assistant"' /v1/chat/completions \
    '{"messages": [{"role": "user", "content": [{"type": "text", "text": "Speak."}]}], "max_tokens": 4, "logprobs": true, "top_logprobs": 2}'
ask 200 '"delta":\{"role":"assistant".*' /v1/chat/completions \
    '{"messages": [{"role": "user", "content": "Speak."}], "max_tokens": 4, "stream": true, "stream_options": {"include_usage": true}}' -N
check "a stream ends with its usage" grep -q '"choices":\[\],.*"completion_tokens":4' answer
check "and with [DONE]" sh -c 'tail -n 2 answer | grep -qx "data: \[DONE\]"'
ask 200 '"object":"embedding","index":1,"embedding":\[-?0\.[0-9]' /v1/embeddings '{"input": ["a king", "a queen"]}'
ask 200 '"embedding":"[A-Za-z0-9+/]{1300,}=*"' /v1/embeddings '{"input": "a king", "encoding_format": "base64", "pooling": "mean"}'

# ---- a given shape ------------------------------------------------------------------------------------------------------
schema='{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
    "age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["name", "age"]}'
who='"messages": [{"role": "user", "content": "Who?"}]'
ask 200 '"finish_reason":"stop".*"content":"\{[^}]*\\"name\\":[^}]*\\"age\\":[^}]*\}"' /v1/chat/completions \
    "{$who, \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": $schema}}}"
tool='{"type": "function", "function": {"name": "look_up", "parameters":
    {"type": "object", "properties": {"who": {"enum": ["Romeo", "Juliet"]}}, "required": ["who"]}}}'
call='"name":"look_up","arguments":"\{\\"who\\":\\"(Romeo|Juliet)\\"\}"'
ask 200 "\"finish_reason\":\"tool_calls\".*\"content\":null.*$call" /v1/chat/completions \
    "{$who, \"tools\": [$tool], \"tool_choice\": \"required\"}"
ask 200 '"tool_calls":\[\{"index":0,"function":\{"arguments":"\{\\"who\\":' /v1/chat/completions \
    "{$who, \"tools\": [$tool], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"look_up\"}}, \"stream\": true}"
other='{"type": "function", "function": {"name": "other"}}'
allowed() { echo "\"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"$1\", \"tools\": $2}}"; }
named='[{"type": "function", "function": {"name": "look_up"}}, {"type": "function", "function": {"name": "ghost"}}]'
ask 200 "\"finish_reason\":\"tool_calls\".*$call" /v1/chat/completions "{$who, \"tools\": [$other, $tool], $(allowed required "$named")}"
ask 400 'wants a call, and there are no tools' /v1/chat/completions "{$who, \"tools\": [$other, $tool], $(allowed required '[]')}"
ask 200 '"finish_reason":"length"' /v1/chat/completions "{$who, \"tools\": [$other], \"max_tokens\": 2, $(allowed auto "$named")}"
ask 400 'allowed_tools is' /v1/chat/completions "{$who, \"tools\": [$tool], $(allowed none "$named")}"
refers='{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties":
    {"who": {"$ref": "#/$defs/p"}}, "required": ["who"], "$defs": {"p": {"enum": ["Romeo", "Juliet"]}}}}}'
ask 200 "\"finish_reason\":\"tool_calls\".*$call" /v1/chat/completions "{$who, \"tools\": [$refers], \"tool_choice\": \"required\"}"
# Calls that are written without being required: one at most, or all; none that does not exist, none in a shaped answer.
writes() { echo "\"grammar\": \"root ::= \\\"$(echo "$1" | sed 's/"/\\\\\\\"/g')\\\"\""; }
twice='<tool_call>{"name": "look_up", "arguments": {}}</tool_call><tool_call>{"name": "look_up", "arguments": {"n": 0.10}}</tool_call>'
ask 200 '"tool_calls":\[\{[^]]*"arguments":"\{\}"[^]]*"arguments":"\{\\"n\\":0\.10\}"' /v1/chat/completions \
    "{$who, \"tools\": [$tool], $(writes "$twice")}"
ask 200 '"tool_calls":\[\{[^{]*\{[^}]*"\{\}"\}\}\]' /v1/chat/completions \
    "{$who, \"tools\": [$tool], \"parallel_tool_calls\": false, $(writes "$twice")}"
# One call is enough there: what would follow it is not written.
written() { grep -o '"completion_tokens":[0-9]*' answer | tail -n 1 | cut -d: -f2; }
ask 200 '"finish_reason":"tool_calls"' /v1/chat/completions \
    "{$who, \"tools\": [$tool], $(writes "${twice%<tool_call>*}")}"
one=$(written)
for stream in '' ', "stream": true, "stream_options": {"include_usage": true}'; do
    ask 200 '"finish_reason":"tool_calls"' /v1/chat/completions \
        "{$who, \"tools\": [$tool], \"parallel_tool_calls\": false, $(writes "$twice")$stream}"
    check "one call of $one tokens, and $(written) written" [ "$(written)" -lt $((one * 2 - 10)) ]
done
ask 200 '"finish_reason":"stop".*"content":"<tool_call>' /v1/chat/completions \
    "{$who, \"tools\": [$tool], $(writes '<tool_call>{"name": "ghost", "arguments": {}}</tool_call>')}"
ask 200 '"delta":\{"tool_calls":\[\{"index":1,"id":"call.{5}","type":"function","function":\{"name":"look_up","arguments":""\}' /v1/chat/completions \
    "{$who, \"tools\": [$tool], \"stream\": true, $(writes "$twice")}" -N
check "a stream has the name first, then arguments" grep -q '"tool_calls":\[{"index":1,"function":{"arguments":' answer
ask 200 '"finish_reason":"stop".*"content":"\{[^:]*\\"name\\":' /v1/chat/completions "{$who, \"tools\": [$tool],
    \"response_format\": {\"type\": \"json_object\", \"schema\":
        {\"type\": \"object\", \"properties\": {\"name\": {\"const\": \"look_up\"}}, \"required\": [\"name\"]}}}"
ask 200 '"content"' /v1/chat/completions '{"messages": [{"role": "developer", "content": "d"}, {"role": "user", "content": "x"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look_up", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]},
    {"role": "assistant", "content": "b", "tool_calls": null, "reasoning_content": "r"}, {"role": "user", "content": "x"}], "max_tokens": 2}'
ask 400 'a message has no content' /v1/chat/completions '{"messages": [{"role": "user"}]}'
ask 200 '"text":"(yes|no)"' /v1/completions '{"prompt": "Or not?", "grammar": "root ::= \"yes\" | \"no\""}'
ask 400 'line 1, column 10: a rule of this name is not there' /v1/completions '{"prompt": "a", "grammar": "root ::= x"}'
# What is not enforced exactly is named and verified, and refused where the client is strict.
unique='{"type": "array", "items": {"const": 7}, "minItems": 2, "maxItems": 2, "uniqueItems": true}'
ask 200 '"schema_valid":false' /v1/completions \
    "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\", \"schema\": $unique}}" -D headers
check "X-Doppler-Unenforced" grep -qi '^x-doppler-unenforced: uniqueItems' headers
ask 200 '"finish_reason":"stop".*"schema_valid":false' /v1/completions \
    "{\"prompt\": \"a\", \"stream\": true, \"response_format\": {\"type\": \"json_object\", \"schema\": $unique}}"
ask 400 'strict: the keyword uniqueItems' /v1/completions "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_schema\",
    \"json_schema\": {\"name\": \"x\", \"strict\": true, \"schema\": $unique}}}"
format() { echo "{\"prompt\": \"a\", \"max_tokens\": 40, \"response_format\": {\"type\": \"json_object\", \"schema\": $1}}"; }
ask 200 '"text":"-?[0-9]{1,16}"' /v1/completions \
    "$(format '{"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}')" -D headers
check "all of it is enforced" sh -c '! grep -qi unenforced headers'
ask 200 '"text":"\\"[0-9]{4}-[01][0-9]-[0-3][0-9]\\""' /v1/completions \
    "$(format '{"type": "string", "format": "date", "pattern": "^\\d{4}-\\d{2}-\\d{2}$"}')"
ask 400 'the grammar is too ambiguous' /v1/completions \
    '{"prompt": "a", "grammar": "root ::= ((([^x]*){0,99}){0,99}){0,99}", "max_tokens": 2}'
ask 400 'the grammar takes too many steps' /v1/completions "$(printf '{"prompt": "a", "grammar": "x ::= [^\\n]+\\nroot ::= x{300}'; \
    for i in $(seq 182); do printf ' | x{%d}' $((300 + i)); done; printf '"}')"
{ printf '{"prompt": "a", "response_format": {"type": "json_object", "schema": {"enum": ["word 0"'
    for i in $(seq 4000); do printf ', "word %d"' "$i"; done; printf ']}}}'; } >words
ask 200 '"text":"\\"word [0-9]+\\""' /v1/completions @words
echo "$schema" >person.json
echo 'root ::= ("ha" | "ho"){2,4}' >laugh.gbnf
shaped() {
    defaults "--temp 1" "$@"
    "$EXEC" one.plan -p A -n 200 --seed 3 --quiet --no-display-prompt "${OPTIONS[@]}"
}
shaped --json-schema person.json >shaped
check "--json-schema" grep -q '"age"' shaped
echo '{"type": "array", "items": {"const": 7}, "maxItems": 2, "uniqueItems": true}' >unique.json
"$EXEC" one.plan -p A -n 40 --json-schema unique.json --no-display-prompt 2>notes >shaped
check "a note names what is not enforced" grep -q '^doppler-exec: note: not enforced exactly: uniqueItems$' notes
"$EXEC" one.plan -p A -n 2 --json-schema person.json --no-display-prompt 2>notes >shaped
check "a note says that a shape was cut" grep -q '^doppler-exec: note: after 2 tokens the text is not complete' notes
shaped --grammar laugh.gbnf >shaped
check "--grammar" grep -qxE "(ha|ho){2,4}" shaped
# Greedy picks are made on the device, with its mask; a penalty of nearly nothing has the host make them.
for way in 1 1.0000001; do
    shaped --temp 0 --repeat-penalty $way --json-schema person.json >greedy.$way
done
check "greedy, on the device as on the host" sh -c 'grep -q "\"age\"" greedy.1 && cmp greedy.1 greedy.1.0000001'
body='{"prompt": "A", "max_tokens": 30, "temperature": 0, "grammar": "root ::= [a-z ]+"'
ask 200 '"text":"[a-z ]*"' /v1/completions "$body}"
sed -E 's/.*("text":"[^"]*").*/\1/' answer >masked
ask 200 '"text":"[a-z ]*"' /v1/completions "$body, \"logprobs\": 0}"
check "the server too" sh -c 'sed -E "s/.*(\"text\":\"[^\"]*\").*/\1/" answer | cmp - masked'
echo 'root ::= "a" b' >wrong.gbnf
check_fails "--grammar with a mistake" 1 "wrong.gbnf:1:14: error: a rule of this name is not there" "$EXEC" one.plan -p A --grammar wrong.gbnf

# ---- what is refused ----------------------------------------------------------------------------------------------------
ask 400 '"type":"invalid_request_error","param":null,"code":"invalid_json"' /v1/completions '{"prompt":'
ask 400 '"param":"temperature"' /v1/completions '{"prompt": "a", "temperature": "hot"}'
printf '{"prompt": [%s2], "max_tokens": 4}' "$(printf '300,%.0s' $(seq 511))" >longest
printf '{"prompt": [%s2]}' "$(printf '300,%.0s' $(seq 508))" >near
ask 400 'maximum context length is 512 tokens, and the prompt has 512.*"code":"context_length_exceeded"' /v1/completions @longest
ask 200 '"finish_reason":"(stop|length)".*"prompt_tokens":509,"completion_tokens":[123],' /v1/completions "$(sed 's/]}/], "max_tokens": 600}/' near)"
ask 400 '"param":"prompt"' /v1/completions '{"prompt": [[99999]]}'
ask 400 '"param":"messages"' /v1/chat/completions '{"messages": []}'
ask 404 '"code":"unknown_url"' /v1/nothing
ask 405 'takes POST only' /v1/completions
ask 405 '^Allow: GET, HEAD' /health '{}' -i
ask 200 '^HTTP/1.1 200' /health '' -I
ask 400 '"param":"tools"' /v1/chat/completions "{$who, \"tools\": {\"a\": 1}}"
ask 400 'tool 1 is not' /v1/chat/completions "{$who, \"tools\": [{}]}"
ask 400 'there are no tools' /v1/chat/completions "{$who, \"tool_choice\": \"required\"}"
ask 200 '"id":"gemma3-5.0M"' //v1//models/
ask 200 '"id":"gemma3-5.0M"' /models
ask 200 '"text"' /completions '{"prompt": "a", "max_tokens": 1, "logit_bias": [[300, false], [301, -1.5]]}'
ask 200 '"content"' /chat/completions/ "{$who, \"max_tokens\": 1}"
ask 415 'without Content-Encoding' /tokenize '{"content": "a"}' -H 'Content-Encoding: gzip'
ask 200 '"tokens"' /tokenize '{"content": "a"}' -H 'Content-Encoding: identity'
ask 415 'application/json' /tokenize '{"content": "a"}' -H 'Content-Type: text/plain'
head -c 70000 /dev/zero | tr '\0' ' ' >large
ask 413 '"code":"body_too_large"' /tokenize @large
ask 413 '"code":"body_too_large"' /tokenize @large -H 'Transfer-Encoding: chunked'

# ---- clients ------------------------------------------------------------------------------------------------------------
check "a head that stops halfway is closed" "$TOOLS/clients" "$(port)" stays 40 $((5 * $(slow)))
check "a body that trickles is closed" "$TOOLS/clients" "$(port)" stays 1000 $((5 * $(slow)))
check "16 clients, half of which misbehave" "$TOOLS/clients" "$(port)" storm 16 1
for _ in $(seq 100); do
    curl -s "$url/metrics" >metrics
    grep -qx 'doppler_jobs_running 0' metrics && grep -qx 'doppler_jobs_waiting 0' metrics && break
    sleep 0.1
done
check "their sequences are free again" grep -qx 'doppler_jobs_running 0' metrics
check "steps that ran ahead are counted" grep -qE '^doppler_steps_ahead_total [1-9]' metrics
check "they were noticed" grep -qE 'jobs_total\{end="cancelled"\} [1-9]' metrics
ask 200 '"ok"' /health
curl -sN -H 'Content-Type: application/json' "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 230, "stream": true, "ignore_eos": true}' >cut &
reader=$!
sleep 0.3
stop "SIGTERM ends it"
wait "$reader"
check "a stream that was under way ends cleanly" sh -c 'tail -n 2 cut | grep -qx "data: \[DONE\]"'

if [ "${1:-}" = whole ]; then
    . "$SRC/tests/serve/whole.sh"
    finish
fi

# ---- keys, a full queue, a plan of one sequence -----------------------------------------------------------------------------
printf 'secret-1\nsecret-2\n' >keys
serve one --api-key-file keys --serve-queue 1 --serve-time $((20 * $(slow))) --serve-connections 8
ask 200 ok /health
ask 401 '"code":"invalid_api_key"' /v1/models
ask 401 '"code":"invalid_api_key"' /v1/completions '{"prompt": "a"}' -H 'Authorization: Bearer secret'
key=(-H 'Authorization: Bearer secret-2')
ask 200 '"text"' /v1/completions '{"prompt": "a", "max_tokens": 3}' "${key[@]}"
ask 400 'no chat template' /v1/chat/completions '{"messages": [{"role": "user", "content": "a"}]}' "${key[@]}"
ask 400 'dopplerc --embed' /v1/embeddings '{"input": "a"}' "${key[@]}"
ask 429 '"code":"queue_full"' /v1/completions '{"prompt": "a", "n": 3}' "${key[@]}"
ask 200 '"index":1' /v1/completions '{"prompt": "a", "n": 2, "max_tokens": 3}' "${key[@]}"
check "silent connections give way" "$TOOLS/clients" "$(port)" silent 9 $((10 * $(slow)))
stop "and this one"

# ---- a prefix, pages of other sites, ids of requests, a log, keys that change ------------------------------------------------
printf 'secret-1\n' >keys
serve one --api-key-file keys --prefix /llm --cors https://chat.example.org --log json --serve-comment 0.2
key=(-H 'Authorization: Bearer secret-1')
logged() { # TEXT (extended regular expression): a line that may be about to come
    for _ in $(seq 300); do
        grep -qE -e "$1" one.log && return 0
        sleep 0.1
    done
    return 1
}
ask 200 ok /health
ask 200 '<title>' /
under=$url url=${url%/llm}
ask 404 'paths begin with /llm here' /health
ask 404 'paths begin with /llm here' /llmx/health
check "the prefix alone leads to the page" grep -qi '^location: /llm/' <(curl -sS -D - -o page "$url/llm")
url=$under
ask 200 '"text"' /v1/completions '{"prompt": "a", "max_tokens": 3, "ignore_eos": true}' "${key[@]}" -H 'X-Request-Id: mine-7' -D heads
check "an answer has its request's id" grep -qi $'^x-request-id: mine-7\r$' heads
check "and a line in the log" logged '^\{"time":"[-0-9T:]+Z","id":"mine-7","client":"127.0.0.1","method":"POST",'
check "with what became of it" logged '"id":"mine-7",.*"path":"/v1/completions","status":200,"ms":[0-9.]+,"complete":true,'
check "and its tokens" logged '"id":"mine-7",.*,"model":"gemma3-5.0M","promptTokens":2,"reusedTokens":0,"writtenTokens":3,"firstTokenMs":[0-9.]+\}$'
ask 200 ok /health '' -H 'X-Request-Id: mine 8' -D heads
check "an id with a blank is none" grep -qiE $'^x-request-id: req-[0-9a-f]{16}\r$' heads
ask 401 'invalid_api_key' /v1/models '' -H "X-Request-Id: $(printf 'x%.0s' $(seq 72))" -D heads
check "nor is a long one" grep -qiE $'^x-request-id: req-[0-9a-f]{16}\r$' heads
check "refusals are in the log" logged '"path":"/v1/models","status":401,"ms":[0-9.]+,"complete":true\}$'
site=(-H 'Origin: https://chat.example.org')
ask 200 '"text"' /v1/completions '{"prompt": "a", "max_tokens": 1}' "${key[@]}" "${site[@]}" -D heads
check "a page of another site may read it" grep -qi $'^access-control-allow-origin: https://chat.example.org\r$' heads
preflight() { curl -sS -o page -w '%{http_code}' -D heads -X OPTIONS -H "Origin: $1" -H 'Access-Control-Request-Method: POST' "$url/v1/completions"; }
check "and asks first" [ "$(preflight https://chat.example.org)" = 200 ]
check "what it may send: clients have headers of their own" grep -qi '^access-control-allow-headers: authorization, content-type.*, \*' heads
check "one of a third site may not" [ "$(preflight https://chat.example.net)" = 403 ]
check "and is not told that it may" sh -c '! grep -qi access-control-allow heads'
ask 403 'foreign_origin' /v1/completions '{"prompt": "a"}' "${key[@]}" -H 'Origin: https://chat.example.org.evil.net'
# One answer is written, and a stream waits for its turn.
long='"max_tokens": 240, "ignore_eos": true'
waits=()
for _ in 1 2 3 4; do
    curl -sS -o page -H 'Content-Type: application/json' "${key[@]}" "$url/v1/completions" -d "{\"prompt\": \"a\", $long}" &
    waits[$!]=1
done
sleep 0.1
ask 200 '^data: \[DONE\]$' /v1/completions '{"prompt": "b", "max_tokens": 2, "stream": true}' "${key[@]}" -N
check "a stream that waits has comments" grep -qx ': waiting' answer
wait "${!waits[@]}"
counts='"n_prompt_tokens":[0-9]+,"n_prompt_tokens_cache":[0-9]+,"n_decoded":[0-9]+'
ask 200 "^\\[\\{\"id\":0,\"n_ctx\":256,\"is_processing\":(true|false),$counts\\}\\]\$" /slots '' "${key[@]}"
ask 200 '"default_generation_settings":\{"n_ctx":256,.*"temperature":0.0,.*"total_slots":1,.*"chat_template":""' /props '' "${key[@]}"
printf 'secret-9\n' >keys
kill -HUP "$server"
for _ in $(seq 20); do
    [ "$(curl -sS -o page -w '%{http_code}' "${key[@]}" "$url/v1/models")" = 401 ] && break
    sleep 0.1
done
ask 401 invalid_api_key /v1/models '' "${key[@]}"
key=(-H 'Authorization: Bearer secret-9')
ask 200 '"object":"list"' /v1/models '' "${key[@]}"
: >keys
kill -HUP "$server"
check "a file without keys is said" logged '"level":"error","message":"no key in it.*"path":"keys"'
ask 200 '"object":"list"' /v1/models '' "${key[@]}"
stop "and one with a prefix"
check_fails "a prefix that is none" 2 '--prefix takes a path as /llm, not "llm/"' "$EXEC" one.plan --serve 0 --prefix llm/
check_fails "an origin that is none" 2 "--cors takes an origin as https://chat.example.org" "$EXEC" one.plan --serve 0 --cors chat.example.org
cat >harmony.jinja <<'END'
{{ tools | tojson }}{# <|channel|> #}{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}
{%- endfor %}{{ '<|start|>assistant' }}
END
far='{"id": 5000, "content": "<far>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},'
sed -E "0,/\"added_tokens\": *\[/s//&$far/" "$demo/tokenizer.json" >far.json
serve one --chat-template ./harmony.jinja --tokenizer far.json --system "Be brief."
asked='{"role": "user", "content": "Speak."}' brief='{"role": "system", "content": "Be brief."}'
ask 200 '' /v1/chat/completions "{\"messages\": [$brief, $asked], \"max_tokens\": 1}"
tokens=$(grep -o '"prompt_tokens":[0-9]*' answer)
ask 200 "$tokens," /v1/chat/completions "{\"messages\": [$asked], \"max_tokens\": 1}"
check "a tokenizer with more ids is said" grep -q 'note: the tokenizer has ids up to 5000 and the model.s vocabulary has 2048' one.log
ask 400 'makes token id 5000 of the prompt, and the model.s vocabulary has 2048' /v1/completions '{"prompt": "To <far> be"}'
# A call that is cut is none.
ask 200 '"finish_reason":"length"' /v1/chat/completions "{$who, \"tools\": [$tool], \"tool_choice\": \"required\", \"max_tokens\": 8}"
check "and not among the calls" sh -c '! grep -q tool_calls answer'
ask 200 '"finish_reason":"stop".*"content":"(true|false)"' /v1/chat/completions \
    "{$who, \"max_tokens\": 16, \"response_format\":
        {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", \"schema\": {\"type\": \"boolean\"}}}}"
ask 400 'chat_template_kwargs cannot set .*messages' /v1/chat/completions "{$who, \"chat_template_kwargs\": {\"messages\": []}}"
ask 400 'reasoning_effort is a text' /v1/chat/completions "{$who, \"reasoning_effort\": 3}"
stop "and one of a template with channels"
# A prompt that ends within reasoning: a schema and a required call hold behind it.  <start_of_turn>, token 4, is its end here.
cat >reasons.jinja <<'END'
{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<think>{{ m.reasoning_content }}<start_of_turn>{% endif %}
{{- m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}
END
serve one --chat-template ./reasons.jinja --temp 1
short='"max_tokens": 90, "seed": 3, "logit_bias": {"4": 14}'
boolean='"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "boolean"}}}'
ask 200 '^\{"prompt":"user: Who\?\\nassistant: <think>"\}$' /apply-template "{$who}"
ask 400 'messages is a list' /apply-template '{}'
ask 200 '"finish_reason":"stop".*"content":"(true|false)".*"reasoning_content":"..' /v1/chat/completions "{$who, $short, $boolean}"
ask 200 '"finish_reason":"tool_calls".*"reasoning_content":"..' /v1/chat/completions \
    "{$who, $short, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"look\"}}], \"tool_choice\": \"required\"}"
for none in '"reasoning_effort": "none"' '"chat_template_kwargs": {"enable_thinking": false}'; do
    ask 200 '"content":"(true|false)"' /v1/chat/completions "{$who, $short, $boolean, $none}"
    check "and no reasoning" sh -c '! grep -q reasoning_content answer'
done
ask 200 '"content":"ab"' /v1/chat/completions "{$who, $short, \"grammar\": \"root ::= \\\"ab\\\"\"}"
stop "and one that reasons"
# What a grammar wants and no token has is the request's mistake.
echo '{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}' >letters.json
serve one --tokenizer letters.json --log text
for more in '' ', "logprobs": 1' ', "temperature": 1'; do
    ask 400 'no token of the vocabulary goes on.*invalid_value' /v1/completions "{\"prompt\": \"ab\", \"grammar\": \"root ::= \\\"aZ\\\"\"$more}"
done
line='^[-0-9T:]+Z req-[0-9a-f]{16} 127.0.0.1 POST /v1/completions 400 [0-9.]+ ms; tokens: 2 read, 0 of them reused, 1 written; '
line+='first after [0-9.]+ ms; model gemma3-5.0M$'
check "a log as text" logged "$line"
ask 404 error "/$(printf 'p%.0s' $(seq 199))"
check "a path of 200 bytes is logged" logged ' GET /p{199} 404 '
ask 404 error "/$(printf 'q%.0s' $(seq 200))"
check "and no more of a longer one" logged ' GET /q{199} 404 '
stop "and one of few letters"
check_fails "an address that is none" 2 "--serve takes [HOST:]PORT" "$EXEC" one.plan --serve here
finish
