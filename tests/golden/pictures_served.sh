# Pictures in requests: image_url parts with data: URIs, what is refused, features and prefixes that are used again; addresses and files.
# The argument `whole`: OpenAI's and Anthropic's clients, and the page in a browser, too.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"
elsewhere=
trap '[ -z "$server$elsewhere" ] || kill $server $elsewhere 2>/dev/null; echo "the script ended early"; exit 1' EXIT
models=$SRC/tests/vision

mkdir model && cp "$models/qwen3_vl"/* "$models/tokenizer"/* model/ && chmod -R u+w model
check "a plan" "$DOPPLERC" model -o eyes.plan --ctx 256 --chunks 32 --sequences 2 --rows 2,32 --target lavapipe --quiet

serve() { start log "$EXEC" "$1" --serve 0 "${@:2}"; } # PLAN OPTION...
# post NAME STATUS TEXT PATH: the answer to the file body has the status and contains the text.
post() {
    local name=$1 status=$2 text=$3 got
    got=$(curl -sS --max-time 1200 -o answer -w '%{http_code}' -H 'Content-Type: application/json' --data-binary @body "$url$4" 2>&1)
    if [ "$got" = "$status" ] && grep -qE -e "$text" answer; then
        pass "$name"
    else
        fail "$name" "$got instead of $status and /$text/: $(head -c 400 answer)"
    fi
}
# ask NAME STATUS TEXT PART...: a message of these parts.
ask() {
    local name=$1 status=$2 text=$3 parts
    shift 3
    parts=$(printf ',%s' "$@")
    printf '{"messages": [{"role": "user", "content": [%s]}], "max_tokens": 4, "temperature": 0}' "${parts#,}" >body
    post "$name" "$status" "$text" /v1/chat/completions
}
# claude NAME STATUS TEXT MESSAGE...; respond NAME STATUS TEXT ITEM...: the other two interfaces.
claude() {
    local name=$1 status=$2 text=$3 list
    shift 3
    list=$(printf ',%s' "$@")
    printf '{"model": "m", "messages": [%s], "max_tokens": 4, "temperature": 0}' "${list#,}" >body
    post "$name" "$status" "$text" /v1/messages
}
respond() {
    local name=$1 status=$2 text=$3 list
    shift 3
    list=$(printf ',%s' "$@")
    printf '{"model": "m", "input": [%s], "max_output_tokens": 16, "temperature": 0}' "${list#,}" >body
    post "$name" "$status" "$text" /v1/responses
}
block() { # FILE
    printf '{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%s"}}' "$(base64 -w 0 "$1")"
}
picture() { # FILE
    printf '{"type": "image_url", "image_url": {"url": "data:image/png;base64,%s"}}' "$(base64 -w 0 "$1")"
}
says() { sed -nE 's/.*"content":"([^"]*)".*/\1/p' answer; }
cached() { sed -nE 's/.*"cached_tokens":([0-9]+).*/\1/p' answer; }
hello='{"type": "text", "text": "What is this?"}'
one=$(picture "$models/qwen3_vl/image.png")
other=$(picture "$models/gemma3_vl/image.png")

serve eyes.plan
check "the server says that its model sees" sh -c 'curl -sS "$1/props" | grep -q "\"vision\":true"' sh "$url"
ask "a picture, then text" 200 '"content"' "$one" "$hello"
first=$(says)
ask "the same again" 200 '"content"' "$one" "$hello"
check "the same answer" [ "$(says)" = "$first" ]
check "the prefix with its picture is used again" [ "$(cached)" -gt 20 ]
ask "another picture" 200 '"content"' "$other" "$hello"
check "the prefix ends before another picture" [ "$(cached)" -lt 20 ]
curl -sS "$url/metrics" >metrics
check "three pictures, one of which was kept" sh -c 'grep -qx "doppler_pictures_total 3" metrics &&
    grep -qx "doppler_pictures_kept_total 1" metrics'
ask "text, then a picture" 200 '"content"' "$hello" "$one"
ask "several" 200 '"content"' "$one" "$hello" "$other" "$one"
plain=$(printf '%s' "$one" | sed -E 's/image_url", "image_url": \{"url": (.*)\}\}$/input_image", "image_url": \1}/')
ask "input_image" 200 '"content"' "$plain" "$hello"
ask "text alone" 200 '"content"' "$hello"
ask "damaged" 400 'the picture|PNG' "$(head -c 200 "$models/qwen3_vl/image.png" >cut.png; picture cut.png)"
printf 'hello' >text.png
ask "another kind" 400 'this is no picture of a known kind' "$(picture text.png)"
frame=',\000\000\000\000\001\000\001\000\000\002\002L\001\000'
printf 'GIF89a\001\000\001\000\000\000\000%b%b;' "$frame" "$frame" >two.gif
ask "animated" 400 'animated' "$(picture two.gif)"
printf 'GIF89a\377\377\377\377\000\000\000%b;' "$frame" >huge.gif
ask "huge" 400 'pixels, more than' "$(picture huge.gif)"
ask "no base64" 400 'is not base64' '{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}'
ask "no data" 400 'has no base64' '{"type": "image_url", "image_url": {"url": "data:image/png,abc"}}'
ask "elsewhere" 400 'fetches no pictures .--image-urls.' '{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}'
ask "no address" 400 'the picture of a message is' '{"type": "image_url"}'
ask "too many" 400 'more than 16 pictures' "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" "$one" \
    "$one" "$one" "$one" "$one"
ask "marks in a text" 400 'marks of pictures|tokens that stand for pictures' "$one" '{"type": "text", "text": "<|image_pad|>"}'
# Forms of the same bytes that clients send.
sends() { # URI
    printf '{"type": "image_url", "image_url": {"url": "%s"}}' "$1"
}
same() { # NAME PART: the answer is that of the picture
    ask "$1" 200 '"content"' "$2" "$hello"
    check "$1: the same answer" [ "$(says)" = "$first" ]
}
code=$(base64 -w 0 "$models/qwen3_vl/image.png")
same "lines of base64" "$(sends "data:image/png;base64,$(base64 -w 76 "$models/qwen3_vl/image.png" | sed 's/$/\\r\\n/' | tr -d '\n')")"
same "base64url, without padding" "$(sends "data:image/png;base64,$(printf '%s' "$code" | tr '+/' '-_' | tr -d =)")"
same "no type" "$(sends "data:;base64,$code")"
same "another type" "$(sends "data:image/jpeg;base64,$code")"
same "blanks" "$(sends " data:image/png ; base64 , $code")"
same "%2B, %2F and %3D" "$(sends "data:image/png;base64,$(printf '%s' "$code" | sed 's/+/%2B/g; s|/|%2F|g; s/=/%3d/g')")"
same "parameters" "$(sends "data:image/png;name=a.png;charset=utf-8;base64,$code")"
same "capitals" "$(sends "DATA:IMAGE/PNG;BASE64,$code")"
ask "bytes alone" 400 'send (them|pictures) as data: URIs' "$(sends "$code")"
ask "half a picture" 400 'the picture is a damaged PNG' "$(sends "data:image/png;base64,${code:0:400}")"
ask "padding within" 400 'is not base64' "$(sends "data:image/png;base64,${code:0:40}=${code:41}")"
ask "an empty picture" 400 'is not base64' "$(sends "data:image/png;base64,")"
# Kinds of pictures: right, or refused in one line.
flat() { # WIDTH HEIGHT: a PNG of one color
    python3 - "$1" "$2" <<'EOF'
import base64, struct, sys, zlib
w, h = int(sys.argv[1]), int(sys.argv[2])
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
lines = (b"\0" + b"\x40\x80\xc0" * w) * h
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
print("data:image/png;base64," + base64.b64encode(png).decode(), end="")
EOF
}
ask "one pixel" 200 '"content"' "$(sends "$(flat 1 1)")" "$hello"
ask "a line of pixels" 200 '"content"' "$(sends "$(flat 150 1)")" "$hello"
ask "a longer line" 400 'one may be up to 200 times the other' "$(sends "$(flat 4000 1)")" "$hello"
for kind in rgb16.png palette4.png la.png progressive.jpg cmyk.jpg exif6.jpg gray.gif lossy.webp; do
    ask "$kind" 200 '"content"' "$(sends "data:;base64,$(base64 -w 0 "$SRC/tests/pictures/$kind")")" "$hello"
done
ask "an animated WebP" 400 'the picture is animated: send one of its frames' \
    "$(sends "data:image/webp;base64,$(base64 -w 0 "$SRC/tests/pictures/animated.webp")")"
# Turns with pictures: later ones find what the earlier ones have left.
turn() { # ROLE PART...
    printf ', {"role": "%s", "content": [%s' "$1" "$2"
    printf ', %s' "${@:3}" | sed 's/^, $//'
    printf ']}'
}
turns() { # NAME STATUS TEXT TURNS
    printf '{"messages": [%s], "max_tokens": 4, "temperature": 0}' "${4#, }" >body
    post "$1" "$2" "$3" /v1/chat/completions
}
said='{"type": "text", "text": "A."}'
turns "pictures in two turns" 200 '"content"' "$(turn user "$one" "$hello")$(turn assistant "$said")$(turn user "$hello" "$other")"
two=$(says)
turns "the same in one picture more" 200 '"content"' \
    "$(turn user "$one" "$hello")$(turn assistant "$said")$(turn user "$hello" "$other")$(turn assistant "$said")$(turn user "$one")"
check "the turns before are used again" [ "$(cached)" -gt 40 ]
turns "the first two again" 200 '"content"' "$(turn user "$one" "$hello")$(turn assistant "$said")$(turn user "$hello" "$other")"
check "... with their answer" [ "$(says)" = "$two" ]
turns "between texts, twice" 200 '"content"' "$(turn user "$hello" "$one" "$hello" "$one" "$hello")"
turns "pictures alone, side by side" 200 '"content"' "$(turn user "$one" "$other")"
# Anthropic's Messages: blocks of a user, and of a tool's result.
image=$(block "$models/qwen3_vl/image.png")
claude "a block with a picture" 200 '"text":"' "{\"role\": \"user\", \"content\": [$image, $hello]}"
check "its answer is that of a part" [ "$(sed -nE 's/.*"text":"([^"]*)".*/\1/p' answer)" = "$first" ]
use='{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}'
claude "a picture in a tool's result" 200 '"text":"' "{\"role\": \"user\", \"content\": \"look\"}" "$use" "{\"role\": \"user\", \
\"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"a\", \"content\": [{\"type\": \"text\", \"text\": \"here\"}, $image]}]}"
claude "a source that is none" 400 'the source of a picture is' \
    '{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}'
claude "a picture of an assistant" 400 'blocks of an assistant are' "{\"role\": \"assistant\", \"content\": [$image]}"
claude "no base64 in a block" 400 'the data of a picture is not base64' \
    '{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}]}'
# OpenAI's Responses.
input=$(printf '%s' "$plain" | sed 's/"input_image"/"input_image", "detail": "auto"/')
respond "input_image of Responses" 200 '"output_text"' \
    "{\"role\": \"user\", \"content\": [$input, {\"type\": \"input_text\", \"text\": \"What is this?\"}]}"
call='{"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}'
respond "a picture in a call's output" 200 '"output_text"' '{"role": "user", "content": "look"}' "$call" \
    "{\"type\": \"function_call_output\", \"call_id\": \"a\", \"output\": [$input]}"
respond "a picture by its file's id" 400 'the picture of a message is' \
    '{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}'
ask "and it still answers" 200 '"content"' "$one" "$hello"
stop "it ends"

# Pictures that are elsewhere: fetched or read where an option says so, within limits.
python3 "$SRC/tests/tools/pictures.py" "$models/qwen3_vl/image.png" port &
elsewhere=$!
for _ in $(seq 100); do [ -s port ] && break || sleep 0.1; done
away="http://127.0.0.1:$(cat port)"
at() { printf '{"type": "image_url", "image_url": {"url": "%s"}}' "$1"; }
mkdir -p pictures/inner && cp "$models/qwen3_vl/image.png" "pictures/inner/a b.png" && cp "$models/qwen3_vl/image.png" outside.png
ln -s ../outside.png pictures/link.png && mkfifo pictures/pipe.png
serve eyes.plan --image-urls any --image-files pictures --store 64
ask "an address" 200 '"content"' "$(at "$away/picture")" "$hello"
check "its answer is that of the bytes" [ "$(says)" = "$first" ]
ask "behind a redirect" 200 '"content"' "$(at "$away/away")" "$hello"
ask "redirects without end" 400 'cannot be fetched: ' "$(at "$away/round")"
ask "a redirect to a file" 400 'cannot be fetched: ' "$(at "$away/file")"
ask "not there" 400 'its server answers 404' "$(at "$away/none")"
ask "no bytes" 400 'it has no bytes' "$(at "$away/empty")"
ask "without end" 400 'longer than 33554432 bytes' "$(at "$away/long")"
ask "slow" 400 'cannot be fetched: Timeout' "$(at "$away/slow")"
ask "nobody listens" 400 'cannot be fetched: ' "$(at "http://127.0.0.1:1/a.png")"
ask "no host" 400 'cannot be fetched: ' "$(at "http://")"
ask "a password" 400 'cannot be fetched: ' "$(at "http://me:it@127.0.0.1:1/")"
ask "another scheme" 400 'fetches no pictures' "$(at "ftp://127.0.0.1/a.png")"
claude "a block's address" 200 '"text":"' "{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"url\", \
\"url\": \"$away/picture\"}}, $hello]}"
ask "a file" 200 '"content"' "$(at "file:///$WORK/pictures/inner/a%20b.png")" "$hello"
ask "a file by its name there" 200 '"content"' "$(at "file:inner/a%20b.png")" "$hello"
for path in "file://$WORK/outside.png" "file:../outside.png" "file:link.png" "file:pipe.png" "file:inner" "file:none.png" "file:a%00b" \
    "file:///etc/passwd" "file://$WORK/pictures/../outside.png" "file://$WORK/pictures"; do
    ask "$path" 400 'has no such picture' "$(at "$path")"
done
if [ "${1:-}" = whole ]; then
    browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
    if ! command -v node >/dev/null; then
        skip "other people's clients" "there is no node"
    elif ! (mkdir -p npm && cd npm && timeout 120 npm install --silent --no-audit --no-fund openai@6 @anthropic-ai/sdk@1 >../npm.log 2>&1); then
        skip "other people's clients" "npm cannot install them: $(tail -n 1 npm.log)"
    else
        check "OpenAI's and Anthropic's clients, and the page" node "$SRC/tests/serve/pictures.mjs" "$url" "$PWD/npm" \
            "$models/qwen3_vl/image.png" "$away/picture" $browser
    fi
fi
stop "it ends"
serve eyes.plan --image-urls public
for host in 127.0.0.1 localhost "[::1]" "[::ffff:127.0.0.1]" 0.0.0.0 2130706433 0x7f.1; do
    ask "not public: $host" 400 "address is not public|cannot be fetched: Could.?n.t (resolve|connect)" "$(at "${away/127.0.0.1/$host}/picture")"
done
ask "no files" 400 'reads no files' "$(at "file:///etc/passwd")"
stop "it ends"
kill "$elsewhere"
server='' elsewhere=''
check_fails "no folder" 2 "--image-files nowhere: this is no folder" "$EXEC" eyes.plan --serve 0 --image-files nowhere
check_fails "which addresses" 2 "--image-urls" "$EXEC" eyes.plan --serve 0 --image-urls some

# The command line: a prompt and a conversation.
"$EXEC" eyes.plan --chat -p "What is this?" --image "$models/qwen3_vl/image.png" -n 4 --temp 0 --quiet >said 2>&1
"$EXEC" eyes.plan --chat -p "What is this?" -n 4 --temp 0 --quiet >blind 2>&1
printf '/image %s\nWhat is this?\n' "$models/qwen3_vl/image.png" | "$EXEC" eyes.plan -i -n 4 --temp 0 --quiet >talked 2>&1
check "/image in a conversation is --image" cmp said talked
printf '/image "%s"\nWhat is this?\n/undo\n' "$models/qwen3_vl/image.png" | "$EXEC" eyes.plan -i -n 1 --quiet >talked 2>&1
check "/undo says what was typed" grep -q 'forgot "What is this?" and its answer; 0 turns' talked
check "the picture matters" sh -c '! cmp -s said blind'
check_fails "no file" 1 "none.png: error: cannot open" "$EXEC" eyes.plan -p x --image none.png --quiet
trap - EXIT
finish
