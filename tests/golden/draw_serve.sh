# --serve with a model that draws: POST /v1/images/generations and /v1/images/edits, what is refused, progress, and a client that leaves.
# The argument `whole` is the long form: OpenAI's own client, and the tab of the page in a browser, where those are there.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"

check "a plan" "$DOPPLERC" "$SRC/tests/diffusion/turbo" -o turbo.plan --target lavapipe --quiet --size 24x16
serve turbo
picture='"b64_json":"iVBORw0KGgo[^"]*"'
ask 200 '"draws":\{"width":24,"height":16,"steps":1,' /v1/models
ask 200 "\"created\":[0-9]+,\"data\":\[\{$picture,\"seed\":3\}\],\"size\":\"24x16\"" /v1/images/generations \
    '{"prompt": "a red house", "seed": 3}'
sed -E 's/.*"b64_json":"([^"]*)".*/\1/' answer | base64 -d >served.png
"$EXEC" turbo.plan --draw "a red house" -o own.png --seed 3 --quiet
check "the bytes of --draw" cmp own.png served.png
if [ "${1:-}" = whole ]; then
    browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
    if ! command -v node >/dev/null; then
        skip "OpenAI's client" "there is no node"
    elif ! (mkdir -p npm && cd npm && timeout 120 npm install --silent --no-audit --no-fund openai@6 >../npm.log 2>&1); then
        skip "OpenAI's client" "npm cannot install it: $(tail -n 1 npm.log)"
    else
        check "OpenAI's client" node "$SRC/tests/serve/draw.mjs" "$url" "$PWD/npm"
    fi
    if [ -d npm/node_modules/openai ]; then
        stop "it ends well"
        check "a plan that begins with pictures" "$DOPPLERC" "$SRC/tests/diffusion/sd15" -o sd15.plan --target lavapipe --quiet --size 24x16
        serve sd15
        check "OpenAI's client edits" node "$SRC/tests/serve/edit.mjs" "$url" "$PWD/npm" "$SRC/tests/pictures/rgb.png"
        stop "it ends well"
        serve turbo
    fi
    if ! command -v node >/dev/null || [ -z "$browser" ]; then
        skip "the tab in a browser" "there is no node or no Chromium"
    else
        check "the tab in a browser" node "$SRC/tests/serve/draw_page.mjs" "$url" "$browser"
    fi
    stop "it ends well"
    trap - EXIT
    finish
    exit
fi
ask 200 "\"data\":\[\{$picture,\"seed\":8\},\{$picture,\"seed\":9\}\]" /v1/images/generations \
    '{"prompt": "a house", "seed": 8, "n": 2, "size": "auto", "quality": "high"}' -D headers
check "what has no effect is named" grep -qi '^X-Doppler-Ignored: quality' headers
ask 200 '"url":"data:image/png;base64,iVBOR' /v1/images/generations '{"prompt": "x", "response_format": "url"}'
ask 200 '^: picture 2 of 2, step 3 of 3' /v1/images/generations \
    '{"prompt": "x", "n": 2, "steps": 3, "guidance": 2, "negative": "y", "sampler": "ancestral", "stream": true, "partial_images": 3}' -N
check "two events" [ "$(grep -c '^event: image_generation.completed' answer)" -eq 2 ]
check "and the end" sh -c 'tail -n 2 answer | grep -qx "data: \[DONE\]"'
while IFS='|' read -r body why; do
    ask 400 "$why" /v1/images/generations "{$body}"
done <<'END'
|prompt is the text to draw
"prompt": 5|prompt is a text
"prompt": "x", "size": "1024x1024"|this plan draws pictures of 24x16: size is that or auto
"prompt": "x", "n": 11|n is a whole number between 1 and 10
"prompt": "x", "steps": 1001|steps is a whole number between 0 and 1000
"prompt": "x", "guidance": -1|guidance is a number between 0 and 100
"prompt": "x", "sampler": "best"|no sampler \\"best\\": euler, ancestral, ddim, lcm
"prompt": "x", "response_format": "webp"|response_format is b64_json or url
"prompt": "x", "output_format": "webp"|output_format is png
"prompt": "x", "partial_images": 4|partial_images is a whole number between 0 and 3
"prompt": "x\u0000y"|prompt has a NUL
END
ask 400 'the model draws and writes nothing' /v1/completions '{"prompt": "x"}'
# A client that leaves: the drawing stops before its next step, and the next request does not wait for the rest.
curl -sN --max-time 2 -o left -H 'Content-Type: application/json' "$url/v1/images/generations" \
    -d '{"prompt": "x", "steps": 1000, "n": 4, "stream": true}'
check "it had begun" grep -q '^: picture 1 of 4, step [0-9]' left
begin=$(date +%s)
ask 200 "$picture" /v1/images/generations '{"prompt": "x"}'
check "the next did not wait for it" [ $(($(date +%s) - begin)) -lt 30 ]
ask 200 'doppler_jobs_total\{end="cancelled"\} [1-4]' /metrics

# edits STATUS TEXT FIELD...: a form with these fields.
edits() {
    local status=$1 text=$2 got parts=()
    shift 2
    for field in "$@"; do parts+=(-F "$field"); done
    got=$(curl -sSN --max-time 600 -o answer -D headers -w '%{http_code}' "${parts[@]}" "$url/v1/images/edits" 2>&1)
    if [ "$got" = "$status" ] && grep -qE -e "$text" answer; then
        pass "edits $*"
    else
        fail "edits $*" "$got instead of $status and /$text/: $(head -c 400 answer)"
    fi
}
photo=$SRC/tests/pictures/progressive.jpg
edits 400 'the plan begins with no picture' image=@"$photo" prompt=x
stop "it ends well"
check "a plan that begins with pictures" "$DOPPLERC" "$SRC/tests/diffusion/sd15" -o sd15.plan --target lavapipe --quiet --size 24x16
serve sd15
edits 200 "\"data\":\[\{$picture,\"seed\":3\},\{$picture,\"seed\":4\}\],\"size\":\"24x16\"" image=@"$photo" prompt='a red house' \
    seed=3 n=2 steps=4 strength=0.5 guidance=2 size=auto input_fidelity=high
check "what has no effect is named" grep -qi '^X-Doppler-Ignored: input_fidelity' headers
sed -E 's/.*"data":\[\{"b64_json":"([^"]*)".*/\1/' answer | base64 -d >served.png
"$EXEC" sd15.plan --draw "a red house" -o own.png --init "$photo" --strength 0.5 --steps 4 --guidance 2 --seed 3 --quiet
check "the bytes of --init" cmp own.png served.png
ask 200 "$picture,\"seed\":3" /v1/images/generations "{\"prompt\": \"a red house\", \"seed\": 3, \"steps\": 4, \"strength\": 0.5,
    \"guidance\": 2, \"init\": \"data:image/jpeg;base64,$(base64 -w 0 "$photo")\"}"
sed -E 's/.*"b64_json":"([^"]*)".*/\1/' answer | base64 -d >served.png
check "the same picture as a data: URI" cmp own.png served.png
"$TOOLS/masked" make mask.png 24 16 8 4 20 12
edits 200 "$picture,\"seed\":3" image=@own.png mask=@mask.png prompt='a red house' seed=3 steps=2
sed -E 's/.*"b64_json":"([^"]*)".*/\1/' answer | base64 -d >masked.png
"$EXEC" sd15.plan --draw "a red house" -o own_masked.png --init own.png --mask mask.png --steps 2 --seed 3 --quiet
check "the bytes of --mask" cmp own_masked.png masked.png
check "what the mask keeps is kept" "$TOOLS/masked" compare own.png masked.png mask.png
rgb=$SRC/tests/pictures/rgb.png gif=$SRC/tests/pictures/transparent.gif
"$EXEC" sd15.plan --draw x -o own_masked.png --init "$rgb" --mask "$gif" --steps 1 --seed 3 --quiet
edits 200 "$picture" image=@"$rgb" mask=@"$gif" prompt=x seed=3 steps=1
sed -E 's/.*"b64_json":"([^"]*)".*/\1/' answer | base64 -d >masked.png
check "and of a mask that is cut and resized" cmp own_masked.png masked.png
edits 200 '^: picture 1 of 1, step 1 of 1' 'image[]=@own.png' prompt=x stream=true steps=1
check "an event of edits" grep -q '^event: image_edit.completed' answer
head -c 60 own.png >cut.png
echo text >own.png.txt
# The same file with a width and a height of 32767, and the checksum of that.
{ head -c 16 own.png && printf '\0\0\177\377\0\0\177\377\10\2\0\0\0\306\220\221\152' && tail -c +34 own.png; } >huge.png
while IFS='|' read -r why fields; do
    eval "edits 400 \"\$why\" $fields"
done <<'END'
image is the picture to begin with|prompt=x
image is the picture to begin with|prompt=x picture=@own.png
image is given 2 times|prompt=x 'image[]=@own.png' 'image[]=@cut.png'
prompt is the text to draw|image=@own.png
no pixel of the mask is transparent|prompt=x image=@own.png mask=@own.png
the mask has 24 x 16 pixels, and the picture 23 x 17|prompt=x image=@"$photo" mask=@mask.png
mask is given 2 times|prompt=x image=@own.png mask=@mask.png mask=@mask.png
the picture is empty|prompt=x image=@own.png mask=@/dev/null
image is the picture to begin with|prompt=x mask=@mask.png
the picture is a damaged PNG|prompt=x image=@cut.png
the picture is empty|prompt=x image=@/dev/null
no picture|prompt=x image=@own.png.txt
the picture has 32767 x 32767 pixels, more than|prompt=x image=@huge.png
strength is a number between 0.001 and 1|prompt=x image=@own.png strength=1.5
strength is a number between 0.001 and 1|prompt=x image=@own.png strength=0
strength is a number between 0.001 and 1|prompt=x image=@own.png strength=much
n is a whole number between 1 and 10|prompt=x image=@own.png n=1.5
this plan draws pictures of 24x16|prompt=x image=@own.png size=1024x1024
stream is true or false|prompt=x image=@own.png stream=perhaps
END
ask 415 'files come in forms' /v1/images/edits '{"prompt": "x"}'
ask 400 'the body is no complete multipart' /v1/images/edits 'image=x' -H 'Content-Type: multipart/form-data'
stop "it ends well"
trap - EXIT
finish
