# --serve with a model of speech: POST /v1/audio/transcriptions and /translations, what is refused, several models behind one server,
# and a client that leaves.  The argument `whole` is the long form: OpenAI's own client, where it is there.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"

check "a model" "$TOOLS/speech_model" tiny.bin tiny f32
check "a plan" "$DOPPLERC" tiny.bin -o tiny.plan --target lavapipe --quiet --chunks 16 --kv f32 --sequences 2 --rows 2
"$TOOLS/sound" 9 3 >talk.wav
"$EXEC" tiny.plan --audio talk.wav --json --quiet >own.json
serve tiny

# form STATUS TEXT PATH FIELD...: a form with these fields; the answer has the status and contains the text.
form() {
    local status=$1 text=$2 path=$3 got parts=()
    shift 3
    for field in "$@"; do parts+=(-F "$field"); done
    got=$(curl -sSN --max-time 1200 -o answer -D headers -w '%{http_code}' "${parts[@]}" "$url$path" 2>&1)
    if [ "$got" = "$status" ] && grep -qE -e "$text" answer; then
        pass "$path $*"
    else
        fail "$path $*" "$got instead of $status and /$text/: $(head -c 400 answer)"
    fi
}
t=/v1/audio/transcriptions
if [ "${1:-}" = whole ]; then
    if ! command -v node >/dev/null; then
        skip "OpenAI's client" "there is no node"
    elif ! (mkdir -p npm && cd npm && timeout 120 npm install --silent --no-audit --no-fund openai@6 >../npm.log 2>&1); then
        skip "OpenAI's client" "npm cannot install it: $(tail -n 1 npm.log)"
    else
        check "OpenAI's client" node "$SRC/tests/serve/speech.mjs" "$url" "$PWD/npm" "$PWD/talk.wav"
    fi
    stop "it ends well"
    trap - EXIT
    finish
    exit
fi
form 200 '^\{"text":".+"\}$' $t file=@talk.wav model=tiny
check "as JSON" grep -qi '^Content-Type: application/json' headers
form 200 '"task":"transcribe","language":"[a-z ]{4,}","duration":9.0,' $t file=@talk.wav response_format=verbose_json \
    'timestamp_granularities[]=segment'
check "the segments are those of --audio" sh -c 'cut_out() { sed "s/.*\"segments\"//" "$1"; }
    [ "$(cut_out answer)" = "$(cut_out own.json)" ]'
form 200 '^00:00:0[0-9],[0-9]{3} --> 00:00:' $t file=@talk.wav response_format=srt
form 200 '^WEBVTT' $t file=@talk.wav response_format=vtt temperature=0.4 prompt=Names
form 200 '.' $t file=@talk.wav response_format=text language=de seed=4
check "as text" grep -qi '^Content-Type: text/plain' headers
form 200 '"task":"translate"' /v1/audio/translations file=@talk.wav response_format=verbose_json model=tiny
form 200 '"language":"german"' $t file=@talk.wav response_format=verbose_json language=german chunking_strategy=auto
# Languages as clients name them, fields that they leave empty, and any seed.
for language in pt-BR PT_br portuguese; do
    form 200 '"language":"portuguese"' $t file=@talk.wav response_format=verbose_json language=$language
done
form 200 '"language":"javanese"' $t file=@talk.wav response_format=verbose_json language=jv
form 200 '"text":' $t file=@talk.wav language=auto
form 200 '^\{"text":' $t file=@talk.wav language= prompt= response_format= temperature= stream= seed=-1
# A twentieth of a second, and what crosses a chunk of 30 s.
head -c 1644 talk.wav >short.wav
form 200 '"duration":0.05,' $t file=@short.wav response_format=verbose_json
# As a writer to a pipe leaves it, which cannot go back to fill in sizes.
{ printf 'RIFF\0\0\0\0' && tail -c +9 short.wav | head -c 32 && printf '\0\0\0\0' && tail -c +45 short.wav; } >piped.wav
form 200 '"duration":0.05,' $t file=@piped.wav response_format=verbose_json
"$TOOLS/sound" 31 6 >long.wav
form 200 '"duration":31.0,.*"seek":[1-9]' $t file=@long.wav response_format=verbose_json temperature=0.5 seed=1
form 200 '"type":"transcript.text.delta","delta"' $t file=@talk.wav stream=true color=red
check "what has no effect is named" grep -qi '^X-Doppler-Ignored: color' headers
check "a stream ends with the whole text" sh -c 'tail -n 4 answer | grep -q "transcript.text.done.*\"seconds\":9.0" &&
    tail -n 2 answer | grep -qx "data: \[DONE\]"'
while IFS='|' read -r why fields; do
    eval "form 400 \"\$why\" $t $fields"
done <<'END'
file is the sound|model=tiny
one file is heard, and file is given 2 times|file=@talk.wav file=@own.json
seed is a whole number|file=@talk.wav seed=1.5
this is no audio that can be read|file=@own.json
this is no audio that can be read|file=@/dev/null
response_format is json, text, srt, verbose_json or vtt|file=@talk.wav response_format=xml
times of words are not computed|file=@talk.wav 'timestamp_granularities[]=word'
temperature is a number between 0 and 1|file=@talk.wav temperature=2
temperature is a number between 0 and 1|file=@talk.wav temperature=warm
stream is true or false|file=@talk.wav stream=perhaps
the language \\"klingon\\" is not known|file=@talk.wav language=klingon
END
head -c 300 talk.wav >cut.wav
form 200 '^\{"text":' $t file=@cut.wav
# Forms that are damaged, and bodies of another kind.
raw() { # STATUS TEXT TYPE BODY
    local got
    got=$(printf '%b' "$4" | curl -sS -o answer -w '%{http_code}' -H "Content-Type: $3" --data-binary @- "$url$t")
    check "a body like ${4:0:30}" sh -c '[ "$1" = "$2" ] && grep -q "$3" answer' sh "$got" "$1" "$2"
}
multi='multipart/form-data; boundary=b'
raw 415 'multipart/form-data' application/json '{}'
raw 400 'no complete multipart' "$multi" ''
raw 400 'no complete multipart' "$multi" 'hello'
raw 400 'no complete multipart' "$multi" '--b\r\n'
raw 400 'no complete multipart' "$multi" '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx'
raw 400 'no complete multipart' "$multi" '--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n'
raw 400 'no complete multipart' "$multi" '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b\r\n'
raw 400 'must be at most 65536 bytes' "$multi" \
    "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n$(printf '%070000d' 0)\r\n--b--\r\n"
raw 400 'this is no audio' "$multi" '--b\r\nContent-Disposition: form-data; filename="name=x"; name="file"\r\n\r\n\r\n--b--\r\n'
# A client that leaves: the next request does not wait for what it asked for.
"$TOOLS/sound" 200 4 >long.wav
curl -sN --max-time 60 -F file=@long.wav -F stream=true "$url$t" 2>/dev/null | head -c 40 >left || true
check "it had begun" grep -q transcript.text.delta left
begin=$(date +%s)
form 200 '^\{"text":' $t file=@cut.wav
check "the next did not wait for it" [ $(($(date +%s) - begin)) -lt 30 ]
ask 200 'doppler_jobs_total\{end="cancelled"\} [1-9]' /metrics
stop "it ends well"

# A plan of text beside it.
mkdir text-model && cp "$SRC/tests/golden/llama"/* "$SRC/tests/vision/tokenizer"/* text-model/
check "a plan of text" "$DOPPLERC" text-model -o text.plan --target lavapipe --quiet --ctx 64 --chunks 16
mkdir plans && cp tiny.plan plans/ && cp text.plan plans/
"$EXEC" --models plans --serve 0 >log 2>&1 &
server=$!
for _ in $(seq 600); do
    url=$(sed -nE 's/^serving .* on (http:[^ ]+) .*/\1/p' log)
    [ -n "$url" ] && break
    sleep 0.1
done
form 200 '^\{"text":' $t model=tiny file=@talk.wav
form 404 'does not exist' $t file=@talk.wav model=other
form 400 'the model hears nothing' $t file=@talk.wav model=text
stop "several models end well"
trap - EXIT
finish
