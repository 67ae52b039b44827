# --serve among clients that mean harm or know no better: framing that can be read in two ways, names of other sites, connections
# that are held, requests and answers without bounds, keys.  After each of them the server is as before: /health answers within
# half a second, and the process has not grown by more than 300 MB.
# The argument `whole` is the long form: 64 readers among 1000 such clients for a minute, and pages of another site in a browser.
. "$(dirname "$0")/../lib.sh"
demo=$SRC/examples/shakespeare-gemma3
whole=${1:-}
server= url=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; echo "the script ended early"; exit 1' EXIT

check "a plan" "$DOPPLERC" "$demo" -o demo.plan --ctx 4096 --chunks 32 --sequences 4 --rows 4 --embed --target lavapipe --quiet

# serve [OPTION...]: starts a server and finds out where it is; $limit: descriptors that it may have
limit= plan=demo.plan
serve() {
    : >log
    url=
    (ulimit ${limit:+-n "$limit"} 2>/dev/null
     exec "$EXEC" $plan --serve 0 --chat-template chatml "$@") >log 2>&1 &
    server=$!
    for _ in $(seq 600); do
        url=$(sed -nE 's/^(\{.*"message":"|)serving .* on (http:[^ ]+) .*/\2/p' log)
        [ -n "$url" ] && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    [ -n "$url" ] || { fail "the server starts" "$(cat log)"; finish; }
    port=${url##*:}
    curl -sS "$url/v1/completions" -H 'Content-Type: application/json' -d '{"prompt":"a","max_tokens":1}' >/dev/null
    before=$(memory)
}
memory() { awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$server/status"; }
used() { awk '{ print $14 + $15 }' "/proc/$server/stat"; } # processor time, hundredths of a second
stop() {
    kill -TERM "$server"
    wait "$server"
    server=
}
as_before() { # AFTER WHAT
    local took
    took=$(curl -sS -o answer -w '%{time_total}' --max-time 100 "$url/health")
    check "after $1: /health after $took s, $(($(memory) - before)) MB more" \
        awk -v t="$took" -v slow="$(slow)" -v m="$(($(memory) - before))" 'BEGIN { exit !(t < 0.5 * slow && m < 300) }'
}
# ask STATUS TEXT PATH [CURL OPTION...]: the answer has this status and contains the text (an extended regular expression),
# in its head or its body.
ask() {
    local got
    got=$(curl -sS --max-time 600 -i -o answer -w '%{http_code}' "${@:4}" "$url$3" 2>&1)
    if [ "$got" = "$1" ] && grep -qE -e "$2" answer; then
        pass "$(echo "${*:3}" | cut -c1-90): $1"
    else
        fail "$(echo "${*:3}" | cut -c1-90)" "$got instead of $1 and /$2/: $(head -c 700 answer)"
    fi
}
json=(-H 'Content-Type: application/json')
complete() { ask "$1" "$2" /v1/completions "${json[@]}" -d "$3"; } # STATUS TEXT BODY

serve --serve-receive 3 --temp 1

# ---- one message, one answer -----------------------------------------------------------------------------------------
# once STATUS NAME MESSAGE: the bytes get one answer, with this status, and the connection ends.
once() {
    printf '%b' "$3" >message
    "$TOOLS/clients" "$port" raw message >answer 2>&1
    local n
    n=$(grep -ac '^HTTP/1.1' answer)
    if [ "$n" -eq 1 ] && grep -aq "^HTTP/1.1 $1" answer && grep -aiq '^connection: close' answer; then
        pass "$2: $1"
    else
        fail "$2" "$n answers: $(head -c 300 answer)"
    fi
}
h='Host: localhost\r\nContent-Type: application/json\r\n'
get='GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
once 400 "a length and chunks" "POST /tokenize HTTP/1.1\r\n${h}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$get"
once 400 "two lengths" "POST /tokenize HTTP/1.1\r\n${h}Content-Length: 0\r\nContent-Length: 47\r\n\r\n$get"
once 400 "a blank before the colon" "POST /tokenize HTTP/1.1\r\n${h}Content-Length : 47\r\n\r\n$get"
once 400 "a folded line" "POST /tokenize HTTP/1.1\r\n${h}X: a\r\n Content-Length: 47\r\n\r\n$get"
once 400 "a line without CR" "POST /tokenize HTTP/1.1\r\n${h}X: a\nContent-Length: 47\r\n\r\n$get"
once 400 "a CR inside a line" "POST /tokenize HTTP/1.1\r\n${h}X: a\rContent-Length: 47\r\n\r\n$get"
once 501 "an unknown coding" "POST /tokenize HTTP/1.1\r\n${h}Transfer-Encoding: xchunked\r\n\r\n$get"
once 400 "a size of chunks with a blank" "POST /tokenize HTTP/1.1\r\n${h}Transfer-Encoding: chunked\r\n\r\n0 \r\n\r\n$get"
once 400 "a name twice" "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n$get"
once 403 "the name of another site" "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n$get"
once 431 "a long head" "GET /$(printf 'a%.0s' $(seq 40000)) HTTP/1.1\r\nHost: localhost\r\n\r\n$get"
printf '%b' "$get$get" >message
"$TOOLS/clients" "$port" raw message >answer
check "two messages have two answers" [ "$(grep -ac '^HTTP/1.1 200' answer)" -eq 2 ]

# ---- pages of other sites --------------------------------------------------------------------------------------------
for path in / /health /metrics /v1/models /nothing; do
    ask 403 '"code":"unknown_host"' "$path" -H "Host: evil.example:$port"
    ask 403 '"code":"foreign_origin"' "$path" -H "Origin: http://evil.example"
done
body='{"content":"a"}'
ask 415 'application/json' /tokenize -H 'Content-Type:' -d "$body"
for type in text/plain application/jsonfoo application/x-www-form-urlencoded 'multipart/form-data; boundary=x' \
    'text/plain; application/json'; do
    ask 415 'application/json' /tokenize -H "Content-Type: $type" -d "$body"
done
ask 200 tokens /tokenize -H 'Content-Type: application/json; charset=utf-8' -d "$body"
ask 403 foreign_origin /tokenize "${json[@]}" -H 'Origin: null' -d "$body"
ask 403 foreign_origin /tokenize "${json[@]}" -H "Origin: http://localhost:1" -d "$body"
ask 403 foreign_origin /tokenize -X OPTIONS -H 'Origin: http://evil.example' -H 'Access-Control-Request-Method: POST'
ask 200 tokens /tokenize "${json[@]}" -H "Origin: $url" -d "$body"
ask 200 tokens /tokenize "${json[@]}" -H "Host: localhost:$port" -H "Origin: http://localhost:$port" -d "$body"
if grep -qi '^access-control' answer; then fail "no page is let in"; else pass "no page is let in"; fi
as_before "pages of other sites"

# ---- bodies that cost --------------------------------------------------------------------------------------------------
# costs NAME: the file `body` is refused, soon
costs() {
    local begin got
    begin=$(date +%s%N)
    got=$(curl -sS -o answer -w '%{http_code}' --max-time 600 "${json[@]}" --data-binary @body "$url/v1/chat/completions")
    local ms=$((($(date +%s%N) - begin) / 1000000))
    if [[ "$got" =~ ^(400|408)$ ]] && [ "$ms" -lt $((20000 * $(slow))) ]; then
        pass "$1: $got after $ms ms"
    else
        fail "$1" "$got after $ms ms: $(head -c 200 answer)"
    fi
    as_before "$1"
}
many() { # TEXT N
    yes "$1" | head -n "$2" | tr -d '\n'
}
{ printf '{"messages":['; many '{},' 1300000; printf '{}]}'; } >body
costs "a million objects"
{ printf '{"messages":'; many '[' 1000000; } >body
costs "a million brackets"
{ printf '{"x":['; many '0,' 2000000; printf '0]}'; } >body
costs "two million numbers"
{ printf '{"a":"'; many 'xxxxxxxxxxxxxxx' 270000; printf '"'; } >body
costs "a text without an end"

stop
# The grammar is compiled within the time of its request, as everything else of that is.
{ printf '{"prompt":"a","grammar":"root ::= r0'; seq 1 9999 | awk '{ printf " | r%d", $1 }'
    seq 0 9999 | awk '{ printf "\\nr%d ::= [a-z]{1,40}", $1 }'; printf '"}'; } >body
serve --serve-prepare 0.05 --temp 1
begin=$(date +%s%N)
got=$(curl -sS -o answer -w '%{http_code}' --max-time 600 "${json[@]}" --data-binary @body "$url/v1/completions")
check "a grammar has the time of its request: $got" [ "$got" = 400 -o "$got" = 408 ]
check "which is said" grep -qE 'takes too (long|many steps)' answer
check "and no more" in_ms "$begin" 3000
stop
serve --serve-receive 3 --temp 1

# ---- answers without bounds ----------------------------------------------------------------------------------------------
complete 400 'too large for this server' '{"prompt":"a","n":64,"max_tokens":1000,"logprobs":20,"ignore_eos":true}'
complete 400 '"param":"max_tokens"' "{\"prompt\":[$(many '"a",' 20)\"a\"],\"max_tokens\":4000,\"logprobs\":20}"
begin=$(memory)
complete 200 'chunked' '{"prompt":"a","n":8,"max_tokens":300,"logprobs":20,"ignore_eos":true}'
check "a long answer is written as it is made" [ $(($(memory) - begin)) -lt 60 ]
sed '1,/^\r$/d' answer >rest
check "and whole" grep -q '"usage":{"prompt_tokens":[0-9]*,"completion_tokens":2400,.*}$' rest
ask 200 '"index":64,.*"prompt_tokens":130' /v1/embeddings "${json[@]}" \
    -d "{\"input\":[$(many '"a",' 64)\"a\"],\"encoding_format\":\"base64\"}"
ask 400 'at most 2048 inputs' /v1/embeddings "${json[@]}" -d "{\"input\":[$(many '"a",' 2048)\"a\"]}"

# ---- what other servers call it -------------------------------------------------------------------------------------------
greedy='"prompt":"To be, or","max_tokens":6,"ignore_eos":true'
answered() { curl -sS "${json[@]}" -d "$1" "$url/v1/completions" | sed -E 's/.*("text":"[^"]*").*/\1/'; } # BODY
want=$(answered "{$greedy,\"temperature\":0}")
same() { check "$1 as with temperature 0" [ "$(answered "{$greedy,$1}")" = "$want" ]; } # MEMBERS
same '"temperature":2,"top_p":0'
same '"temperature":2,"top_p":0,"logprobs":1'
same '"temperature":2,"top_k":1'
same '"temperature":0,"top_k":-1,"top_p":1,"min_p":0,"stop":"","seed":-1'
same '"temperature":0,"repetition_penalty":1.0,"repeat_last_n":-1,"stop":["",""]'
ids() { "$EXEC" demo.plan --quiet -p "To be, or" -n 6 --ignore-eos --print-ids --seed 3 "$@"; }
check "the program: --top-p 0" [ "$(ids --temp 2 --top-p 0)" = "$(ids --temp 0)" ]
check "the program: --top-k -1" [ "$(ids --temp 2 --top-k -1)" = "$(ids --temp 2 --top-k 0)" ]
penalty=$(answered "{$greedy,\"temperature\":0,\"max_tokens\":40,\"repeat_penalty\":3}")
check "repetition_penalty is repeat_penalty" [ "$(answered "{$greedy,\"temperature\":0,\"max_tokens\":40,\"repetition_penalty\":3}")" = "$penalty" ]
complete 200 '"completion_tokens":3,' '{"prompt":"a","n_predict":3,"ignore_eos":true}'
complete 200 '"completion_tokens":3,' '{"prompt":"a","max_tokens":3.0,"ignore_eos":true,"max_completion_tokens":null}'
complete 200 '"completion_tokens":2,' '{"prompt":"a","max_tokens":2,"logit_bias":[],"seed":42.0}'
complete 200 '"completion_tokens":2,' '{"prompt":"a","max_tokens":2,"logit_bias":[[300,1.5],[301,-100]]}'
complete 200 '"finish_reason":"stop"' '{"prompt":"a","max_tokens":-1,"stop":[""," "]}'
complete 200 '^X-Doppler-Ignored: max_token, typical_p' '{"prompt":"a","max_tokens":1,"max_token":3,"typical_p":0.5,"mirostat":0,"user":"me"}'
complete 400 '"param":"max_token"' '{"prompt":"a","max_tokens":1,"max_token":3,"strict":true}'
complete 200 '' '{"prompt":"a","max_tokens":1,"strict":true,"user":"me","metadata":{},"typical_p":1}'
if grep -q Ignored answer; then fail "nothing is ignored"; else pass "nothing is ignored"; fi
complete 200 '^X-Doppler-Ignored: aXb, <>' '{"prompt":"a","max_tokens":1,"a\r\nX\u00e9,b":1,"<>":2}'
for pair in '"temperature":"hot"' '"top_p":true' '"top_k":[1]' '"max_tokens":"3"' '"n":1.5' '"seed":"x"' '"stop":3' \
    '"stop":[3]' '"logit_bias":[1]' '"logit_bias":[[1]]' '"logit_bias":{"-1":1}' '"stream":"yes"' '"strict":1'; do
    name=${pair%%:*}
    complete 400 "\"param\":$name" "{\"prompt\":\"a\",$pair}"
done
as_before "all of this"
stop

# ---- connections --------------------------------------------------------------------------------------------------------
crowd() { # NAME ARGUMENT...
    check "$1" "$TOOLS/crowd" "$port" "$server" "${@:2}" && sed -n '1s/^/        /p' .out
}
serve --serve-connections 16 --serve-receive 3 --temp 1
crowd "a server of 16 connections: 4 readers among 16 that never read" 4 16 3 n
crowd "4 readers among 40 of all kinds" 4 40 2 nhbsl
as_before "them"
stop
serve --temp 1
if [ -n "$whole" ]; then
    crowd "64 readers among 1000 that never read, for a minute" 64 1000 60 n
    crowd "64 readers among 1000 that send half, for a minute" 64 1000 60 h
    crowd "64 readers among 1000 that send a byte a second, for a minute" 64 1000 60 b
fi
crowd "64 readers among 1000 of all kinds" 64 1000 "$([ -n "$whole" ] && echo 60 || echo 3)" nhbsl
as_before "them"

# A client that leaves, or that has not sent its request in full, holds up nothing.
printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{' >half
exec 3<>"/dev/tcp/127.0.0.1/$port" && cat half >&3
(exec 4<>"/dev/tcp/127.0.0.1/$port" && cat half >&4) # and closes
is_gone() { awk -v port="$(printf ':%04X' "$port")" '$2 ~ port "$" && $4 == "08" { n++ } END { exit n > 0 }' /proc/net/tcp; }
for _ in $(seq 300); do
    sleep 0.1
    is_gone && break
done
check "a client that left in the middle of a body is gone" is_gone
begin=$(date +%s%N)
stop
exec 3<&- 3>&-
check "SIGTERM waits for none of them" in_ms "$begin" 2000

limit=1000
serve --temp 1
check "descriptors are counted" grep -q 'note: [0-9]* connections at once: the limit on open files' log
begin=$(used)
crowd "8 readers among 1100 silent ones, where 1000 descriptors are the limit" 8 1100 2 s
check "and the processor has something else to do" [ $(($(used) - begin)) -lt 400 ]
limit=
curl -sSN "${json[@]}" -d '{"prompt":"a","max_tokens":4000,"ignore_eos":true,"stream":true}' "$url/v1/completions" >/dev/null 2>&1 &
reader=$!
sleep 0.5
begin=$(date +%s%N)
for _ in 1 2 3; do kill -TERM "$server" && sleep 0.3; done 2>/dev/null
wait "$server"
server=
check "three signals end it at once" in_ms "$begin" 5000
wait "$reader"

# ---- small requests that cost much, halves of bodies, a full queue -------------------------------------------------------
attack() { # WHAT [OPTION...]
    serve "${@:2}"
    check "$1" "${asks[@]}" "$SRC/tests/serve/hostile.py" "$url" "$1" "$server" && sed -n '1s/^/        /p' .out
    check "after $1: /health" curl -sSf -o /dev/null --max-time 10 "$url/health"
    stop
}
asks=(python3 -B)
printf 'greedy\nmodest\nvip priority=5\nlow priority=-5\n' >keys
attack forms
attack queue --serve-queue 8 --api-key-file keys
mkdir eyes && cp "$SRC/tests/vision/qwen3_vl"/* "$SRC/tests/vision/tokenizer"/* eyes/ && chmod -R u+w eyes
check "a plan for pictures" "$DOPPLERC" eyes -o eyes.plan --ctx 256 --chunks 32 --sequences 2 --rows 2,32 --target lavapipe --quiet
check "a plan that draws" "$DOPPLERC" "$SRC/tests/diffusion/sd15" -o draws.plan --target lavapipe --quiet --size 24x16
plan=eyes.plan
attack pictures --serve-memory 64 --temp 0
attack leaves --serve-memory 2000 --serve-prepare 60
attack workers --serve-memory 2000 --serve-prepare 60
attack bodies
plan=draws.plan
attack edits --serve-memory 64
plan=demo.plan

# ---- what a terminal and a log obey ---------------------------------------------------------------------------------------
printf 'a \033]0;title\a \302\23331m \342\200\256 \tb\303\251\n' >obeyed
printf '{"messages": [{"role": "user", "content": "a \\u001b]0;title\\u0007 \\u009b31m \\u202e \\tb\303\251"}]}' >obeyed.json
"${asks[@]}" -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$EXEC" demo.plan --chat-template chatml --render-chat obeyed.json >shown
check "a terminal gets no sequences" "${asks[@]}" -c 'import sys
text = open("shown", "rb").read().decode()
sys.exit(not ("a ?]0;title? ?31m ? \tb\u00e9" in text and not set(text) & set("\x1b\x07\x9b\u202e")))'
"$EXEC" demo.plan --chat-template chatml --render-chat obeyed.json >shown
check "a file gets the text as it is" grep -q "$(printf '\033]0;title')" shown
serve --log json
"${asks[@]}" -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall("GET /\u202e\u009b31m\u2028x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
s.recv(1000)' "$port"
stop
check "the log has neither" "${asks[@]}" -c 'import sys
text = open("log", "rb").read().decode()
sys.exit("31m" not in text or not text.isascii())'

# ---- keys ---------------------------------------------------------------------------------------------------------------
printf '\xef\xbb\xbf# people\r\n\r\n  secret-1 \r\n   \r\nsecret-2' >keys
serve --api-key-file keys --serve-host my.name
for key in secret-1 secret-2; do ask 200 model /v1/models -H "Authorization: Bearer $key"; done
for key in ' ' '' '# people' '#' people secret- secret-11; do ask 401 invalid_api_key /v1/models -H "Authorization: Bearer $key"; done
ask 200 ok /health -H 'Host: my.name'
ask 200 tokens /tokenize "${json[@]}" -H 'Authorization: Bearer secret-1' -H 'Host: my.name' -H 'Origin: https://my.name' -d "$body"
ask 403 unknown_host /health -H 'Host: your.name'
stop
printf '# nothing\n \r\n' >nokeys
check_fails "a file without keys" 1 "nokeys: error: no key in it: one a line" "$EXEC" demo.plan --serve 0 --api-key-file nokeys
printf 'one key\n' >nokeys
check_fails "a key with a blank" 1 "nokeys:1: error: a key has no blanks" "$EXEC" demo.plan --serve 0 --api-key-file nokeys

# ---- files --------------------------------------------------------------------------------------------------------------
(umask 022 && "$EXEC" demo.plan --quiet -p "To be" -n 2 --session kept >/dev/null)
check "a session is its owner's" [ "$(stat -c %a kept)" = 600 ]
if [ "$(id -u)" -eq 0 ]; then
    mkdir -m 1777 shared
    chown nobody shared # who could follow its own links there, as the folder's owner
    echo mine >precious
    ln -s ../precious shared/link && chown -h 1:1 shared/link
    ln -s ../precious shared/own
    check_fails "a link of somebody else in a shared folder" 1 "shared/link: error: cannot write: Permission denied" \
        "$EXEC" demo.plan --quiet --tokens 1 -n 0 --logits shared/link
    check "what it names stays" [ "$(cat precious)" = mine ]
    check "an own link there" "$EXEC" demo.plan --quiet --tokens 1 -n 0 --logits shared/own
else
    skip "a link of somebody else in a shared folder" "only root can make one"
fi
# Sanitizers need more address space than that.
if "$DOPPLERC" --version >/dev/null && (ulimit -v 150000 && "$DOPPLERC" --version >/dev/null 2>&1); then
    check_fails "no memory for the shader compiler" 1 "error: out of memory in the shader compiler" \
        bash -c 'ulimit -v 80000 && exec timeout 60 "$@"' - "$DOPPLERC" "$SRC/tests/golden/llama" -o small.plan \
        --quiet --target lavapipe --ctx $((1000 + RANDOM % 9000)) # kernels that no test remembers
else
    skip "no memory for the shader compiler" "a sanitizer needs the address space"
fi

# ---- a browser ----------------------------------------------------------------------------------------------------------
browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
if [ -n "$whole" ] && command -v node >/dev/null && [ -n "$browser" ]; then
    serve
    check "pages of other sites in a browser" node "$SRC/tests/serve/foreign.mjs" "$url" "$browser"
    stop
elif [ -n "$whole" ]; then
    skip "pages of other sites in a browser" "there is no node or no Chromium"
fi
finish
