# A model of speech gives the rows and logits of an independent implementation, by the program `audio` and by steps that attend to what it
# fills.  What cannot be heard is one line.
. "$(dirname "$0")/../lib.sh"
model=$SRC/tests/speech/whisper
exact=5e-5 # everything in f32
bound=5e-4 # of text models, with caches in f32
whole=${1:-}
if [ -n "$whole" ]; then # the long form: whisper.cpp writes the same; and more plans and types
    if ! command -v node >/dev/null; then
        skip "whisper.cpp" "there is no node"
    elif ! (mkdir -p npm && cd npm && timeout 300 npm install --silent --no-audit --no-fund @fugood/whisper.node >../npm.log 2>&1); then
        skip "whisper.cpp" "npm cannot install it: $(tail -n 1 npm.log)"
    else
        "$TOOLS/sound" 12 2 >talk.wav
        for type in f32; do # it rounds activations where weights are in blocks
            check "$type: a model of its sizes" "$TOOLS/speech_model" $type.bin tiny $type rows=1500 ctx=448 tokens=50257
            check "$type: compiles" "$DOPPLERC" $type.bin -o $type.plan --quiet --target lavapipe --chunks 16 --kv f32
            "$EXEC" $type.plan --audio talk.wav --language en --no-timestamps --temp 0 --quiet >$type.own
            timeout 300 node "$SRC/tests/golden/speech.mjs" "$PWD/npm" default $type.bin talk.wav >$type.peer 2>peer.log
            # Its tables of GELU are in f16: what is equally likely but for that may part later on.
            check "$type: whisper.cpp writes the same: $(head -c 40 $type.peer)" sh -c \
                '[ "$(head -c 40 "$1")" = "$(head -c 40 "$2")" ] && [ "$(wc -c <"$1")" -gt 100 ]' sh $type.own $type.peer
        done
    fi
fi
printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml
# What the tool of text models asks for beside; and the encoder's rows, as if they were logits.
sed 's/^{/{"greedy": [0], "greedy_margin": [0], /' "$model/expected.json" >expected.json
sed -E 's/.*"hidden_shape": (\[[0-9, ]*\]).*/{"prompt": [0], "greedy": [0], "greedy_margin": [0], "logits_shape": \1, "logits_std": 1}/' \
    "$model/expected.json" >rows.json
"$TOOLS/expect" tokens expected.json . >prompt

# heard NAME BOUND OPTION...
heard() {
    local name=$1 limit=$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --chunks 16 "$@" || return
    check "$name: hears" "$EXEC" "$name.plan" --mel "$model/mel.f32" --features rows.f32 --tokens-file prompt --logits got.f32 -n 0 --quiet
    check "$name: rows" "$TOOLS/expect" logits rows.json . "$model/hidden.f32" rows.f32 "$limit"
    check "$name: logits" "$TOOLS/expect" logits expected.json . "$model/logits.f32" got.f32 "$limit"
}
heard exact $exact --target lavapipe --kv f32
[ -z "$whole" ] || heard sequences $bound --target lavapipe --kv f32 --sequences 3
[ -z "$whole" ] || heard gpu $bound --target tier1.yaml --kv f32 --act f32
check "kernels agree" sh -c '"$1" exact.plan --check >checked && ! grep -q "^MISS" checked' sh "$EXEC"
# whisper.cpp's files: the same values under other names, and matrices in blocks as the floats that these stand for.
check "a GGML file" "$TOOLS/speech_model" ggml.bin like "$model" f32
compiled() { check "$2: compiles" "$DOPPLERC" "$1" -o "$2.plan" --quiet --chunks 16 --target lavapipe --kv f32; }
computed() {
    check "$1: runs" "$EXEC" "$1.plan" --mel "$model/mel.f32" --features "$1.rows" --tokens-file prompt --logits "$1.logits" \
        -n 0 --quiet
}
compiled ggml.bin ggml && computed ggml &&
    check "ggml: rows" "$TOOLS/expect" logits rows.json . "$model/hidden.f32" ggml.rows $exact &&
    check "ggml: logits" "$TOOLS/expect" logits expected.json . "$model/logits.f32" ggml.logits $exact
for type in q8_0 ${whole:+q5_0}; do
    check "$type" "$TOOLS/speech_model" $type.bin like "$model" $type
    check "$type as floats" "$TOOLS/speech_model" $type like "$model" $type
    compiled $type.bin $type && computed $type && compiled $type $type-floats && computed $type-floats &&
        check "$type: rows" "$TOOLS/expect" logits rows.json . $type-floats.rows $type.rows $exact &&
        check "$type: logits" "$TOOLS/expect" logits expected.json . $type-floats.logits $type.logits $exact
done
# One row at a time, as decoding has it.
check "row by row" "$EXEC" exact.plan --mel "$model/mel.f32" --tokens-file prompt --chunk 1 --logits one.f32 -n 0 --quiet
check "row by row: logits" "$TOOLS/expect" logits expected.json . "$model/logits.f32" one.f32 $bound

head -c 60 "$model/mel.f32" >short.mel
check_fails "a chunk of another size" 1 "short.mel: error: 60 bytes are no f32 [80, 200], which are 64000" \
    "$EXEC" exact.plan --mel short.mel --tokens "1" -n 0 --quiet
check_fails "a file that is no audio" 1 "config.json: error: this is no audio that can be read" \
    "$EXEC" exact.plan --audio "$model/config.json"
: >empty.wav
check_fails "an empty file" 1 "empty.wav: error: this is no audio that can be read" "$EXEC" exact.plan --audio empty.wav
check_fails "an option without audio" 2 "is for speech: give --audio FILE" "$EXEC" exact.plan --srt
head -c 700000 ggml.bin >cut.bin
check_fails "a GGML file that is cut off" 1 "cut.bin: error: the file is cut off, or damaged" "$DOPPLERC" cut.bin -o cut.plan
printf 'lmgg%s' "$(head -c 100 "$model/config.json")" >other.bin
check_fails "a GGML file of another model" 1 \
    "other.bin: error: this GGML file is of no model of speech (Whisper); of other models use the GGUF file" "$DOPPLERC" other.bin -o other.plan

# Transcribing with a vocabulary and random weights: a plan with one sequence, one with several, and the directory with the same
# values write the same, and what is written depends on what is heard.
check "a model with a vocabulary" "$TOOLS/speech_model" tiny.bin tiny f32
check "the same as a directory" "$TOOLS/speech_model" tiny tiny f32
compiled tiny.bin one
compiled tiny directory
check "three: compiles" "$DOPPLERC" tiny.bin -o three.plan --quiet --chunks 16 --target lavapipe --kv f32 --sequences 3 --rows 3
"$TOOLS/sound" 9 3 >talk.wav
"$TOOLS/sound" 9 5 >other.wav
hear() {
    local name=$1
    shift
    check "$name: transcribes" sh -c 'to=$1; shift; "$@" >"$to"' sh "$name.json" "$EXEC" "$@" --temp 0 --json --quiet
}
hear one one.plan --audio talk.wav
hear directory directory.plan --audio talk.wav
hear three three.plan --audio talk.wav
hear other one.plan --audio other.wav
hear batch three.plan --audio talk.wav --audio-batch 3
check "one and a directory agree" cmp one.json directory.json
check "one and three agree" cmp one.json three.json
check "other audio, other text" sh -c '! cmp -s one.json other.json'
# The first token after that of the transcription is the likeliest language, with what was heard.
"$EXEC" one.plan --audio talk.wav --tokens 301 --logits first.f32 -n 0 --quiet
language=$("$TOOLS/sound" largest first.f32 302 401)
check "the likeliest language" grep -q "\"language\":\"$language\"" one.json
check "pieces in their order" sh -c 'tr , "\n" <batch.json | sed -n "s/.*\"seek\"://p" | sort -n -c'
check_fails "more pieces than sequences" 1 \
    "one.plan: error: the plan holds 1 sequences, not 2: compile it with --sequences 2 and --rows 2" \
    "$EXEC" one.plan --audio talk.wav --audio-batch 2
finish
