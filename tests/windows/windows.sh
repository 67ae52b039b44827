# Doppler for 64-bit Windows: cross-compiled with MinGW-w64, and run under Wine on the drivers of this machine.  Plans that were compiled here
# run there, what is compiled there has the bytes of what is compiled here, and what the programs print, byte by byte, is what they print
# here: text, ids, logits, errors.
# $1: a folder that keeps the libraries (tests/windows/libraries.sh) and the build from run to run.
. "$(dirname "$0")/../lib.sh"
for tool in x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-g++-posix x86_64-w64-mingw32-dlltool wine Xvfb; do
    command -v "$tool" >/dev/null || {
        skip "Windows" "no $tool (packages gcc-mingw-w64-x86-64-posix, g++-mingw-w64-x86-64-posix, wine, wine64, xvfb)"
        finish
    }
done
kept=$1/windows
mkdir -p "$kept"
if ! timeout 9000 bash "$SRC/tests/windows/libraries.sh" "$kept/libraries" >libraries.log 2>&1; then
    skip "Windows" "its libraries cannot be built: $(tail -n 1 libraries.log)"
    finish
fi

build() {
    cmake -S "$SRC" -B "$kept/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$SRC/tests/windows/toolchain.cmake" \
        -DDOPPLER_WINDOWS_LIBRARIES="$kept/libraries" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DDOPPLER_MPI=OFF -DDOPPLER_FETCH=OFF -DDOPPLER_AUDIO=OFF \
        -DBUILD_TESTING=OFF && cmake --build "$kept/build" -j 2 && cmake --install "$kept/build" --prefix "$WORK/doppler"
}
check "builds and installs" build || finish

# Wine by itself: a display that nobody sees (Vulkan of Wine 8 asks for one), and a folder in the place of the user's.
export WINEPREFIX=$WORK/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml="
exec 3<> <(:)
Xvfb -displayfd 3 -screen 0 320x240x24 >/dev/null 2>&1 &
display=$!
end() {
    timeout 60 wineserver -k
    kill "$display" 2>/dev/null
    echo "$1"
    exit 1
}
trap 'end "the script ended early"' EXIT
read -r -t 60 number <&3 && export DISPLAY=:$number
windows() { timeout 300 wine "$WORK/doppler/bin/doppler-exec.exe" "$@"; }
compiler() { timeout 600 wine "$WORK/doppler/bin/dopplerc.exe" "$@"; }
check "starts" windows --version || finish
check "is of the same release" diff <("$EXEC" --version | cut -d ' ' -f 1-2) <(windows --version | cut -d ' ' -f 1-2)
check "the compiler too" diff <("$DOPPLERC" --version | cut -d ' ' -f 1-2) <(compiler --version | cut -d ' ' -f 1-2)
check "says that it has no server" grep -q 'no server' <(windows --help)
check_fails "--serve is refused" 2 'built without the server' windows p.plan --serve 0
check "has the driver of this machine" diff <("$EXEC" --list-devices) <(windows --list-devices)

# same NAME ARGUMENT...: both programs print the same, and end the same.  compared HERE THERE NAME ARGUMENT...: of two commands.
same() { compared "$EXEC" windows "$@"; }
compared() {
    local program=$1 other=$2 name=$3 here=0 there=0
    shift 3
    "$program" "$@" >here.out 2>here.err </dev/null || here=$?
    "$other" "$@" >there.out 2>there.err </dev/null || there=$?
    check "$name: status" test "$here" = "$there"
    check "$name: output" cmp here.out there.out
    check "$name: errors" cmp here.err there.err
}
model=$SRC/tests/golden/llama demo=$SRC/examples/shakespeare-gemma3
check "compiles here" "$DOPPLERC" "$model" -o p.plan --quiet --kv f32 --chunks 8
check "compiles the demo here" "$DOPPLERC" "$demo" -o demo.plan --quiet --ctx 128 --chunks 8
"$TOOLS/expect" tokens "$model/expected.json" . >prompt
check "generates there" windows p.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids \
    -n "$("$TOOLS/expect" count "$model/expected.json" .)" --logits logits --threads 2
windows p.plan --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids -n "$("$TOOLS/expect" count "$model/expected.json" .)" >ids
check "generated ids" "$TOOLS/expect" ids "$model/expected.json" . ids 0.01
check "logits" "$TOOLS/expect" logits "$model/expected.json" . "$model/logits.f32" logits 5e-4
same "the demo's ids" demo.plan --quiet -p 'ROMEO:' -n 24 --temp 0 --print-ids
same "sampled text" demo.plan --quiet -p 'O Zoë, 词' -n 16 --seed 7 --temp 1
same "what the plan says" demo.plan --info
same "disassembly" p.plan --disasm
same "kernels agree" p.plan --check
printf '{"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}, "required": ["a"]}' >schema.json
same "an answer of a shape" demo.plan --quiet -p hi --json-schema schema.json -n 12 --temp 0
printf 'first line\r\nand \377 bytes\n' >bytes.txt
same "a prompt of bytes from a file" demo.plan --quiet -f bytes.txt -n 4 --temp 0

# Names, sessions and states of prompts in files.
mkdir -p 'Ordner é 词'
cp p.plan 'Ordner é 词/Größe.plan'
same "names that are not ASCII" 'Ordner é 词/Größe.plan' --info
check "backslashes" diff <("$EXEC" 'Ordner é 词/Größe.plan' --info) <(windows 'Ordner é 词\Größe.plan' --info)
"$EXEC" demo.plan --quiet -p 'ROMEO:' -n 8 --temp 0 --session here.session >here.out
windows demo.plan --quiet -p 'ROMEO:' -n 8 --temp 0 --session there.session >there.out
check "a session" cmp here.out there.out
"$EXEC" demo.plan --quiet -p ' and' -n 8 --temp 0 --session there.session >here.out
windows demo.plan --quiet -p ' and' -n 8 --temp 0 --session here.session >there.out
check "sessions of the other system go on" cmp here.out there.out
said='ROMEO: what say you now of all the things that were and the king that is to come and the day that was long and the sun and the sea'
converse() { # STATES PROGRAM...
    local states=$1
    shift
    printf '%s\n%s\n/quit\n' "$said" "$said" | "$@" demo.plan -i --quiet -n 8 --temp 0 --prompt-cache "$states" 2>&1
}
converse here "$EXEC" >here.out
converse there windows >there.out
check "a conversation" cmp here.out there.out
check "states of prompts are files" test -n "$(ls there)"
check "their names" diff <(ls here) <(ls there)
converse here windows >there.out
check "a conversation from states of the other system" cmp here.out there.out

# Compiled there: the bytes of plans.
compiles() { # NAME MODEL OPTION...
    local name=$1
    shift
    rm -f here.plan there.plan
    check "$name: here" "$DOPPLERC" "$@" -o here.plan --quiet && check "$name: there" compiler "$@" -o there.plan --quiet &&
        check "$name: the same plan" cmp here.plan there.plan
}
compiles "the demo" "$demo"
compiles "one thread" "$demo" --ctx 128 --chunks 8 -j 1
compiles "matrix units" "$SRC/tests/golden/mixtral" --target nvidia-hopper,amd-rdna3 --chunks 16,64
compiles "latent attention" "$SRC/tests/golden/deepseek_v32" --target tier1 --chunks 8,64 --act f16
compiles "recurrent layers" "$SRC/tests/golden/qwen3_5" --target intel-xe2 --chunks 8
compiles "pictures" "$SRC/tests/vision/qwen3_vl" --chunks 8
compiles "speech" "$SRC/tests/speech/whisper" --chunks 8
compiles "drawing" "$SRC/tests/diffusion/sd15" --size 24x16
if [ -d "$SHARED/models/shakespeare-gemma3-rdrr" ]; then # which has digests
    compiles "RDRR" "$SHARED/models/shakespeare-gemma3-rdrr" --ctx 64 --chunks 8
else
    skip "RDRR" "no data beside the project"
fi
for type in q8_0 q6_k q4_k q4_0 mxfp4 int4_g128; do compiles "$type" "$demo" --ctx 64 --chunks 8 --quant $type; done
for list in targets types kernels models; do compared "$DOPPLERC" compiler "--list-$list" "--list-$list"; done
for stage in ir regions glsl; do compared "$DOPPLERC" compiler "--emit $stage" "$model" --emit $stage --chunks 8; done
compared "$DOPPLERC" compiler "--report" "$demo" --report --chunks 8 --ctx 128

# Names of files as Windows has them: backslashes, drives, blanks, and lines that end with two bytes.
mkdir -p 'Modelle é 词/ein Modell'
for file in config generation_config tokenizer; do sed 's/$/\r/' "$demo/$file.json" >"Modelle é 词/ein Modell/$file.json"; done
cp "$demo/model.safetensors" 'Modelle é 词/ein Modell/'
check "with the lines of Windows" grep -q $'\r$' 'Modelle é 词/ein Modell/config.json'
sed 's/$/\r/' "$SRC/examples/targets/tier2.yaml" >'Modelle é 词/own target.yaml'
sed 's/$/\r/' "$SRC/examples/kernel-paths/f32-unfused-f32a.yaml" >'Modelle é 词/own path.yaml'
named=$(winepath -w "$WORK" | tr -d '\r')
check "a drive" grep -q '^[A-Z]:\\' <<<"$named"
check "compiles here" "$DOPPLERC" 'Modelle é 词/ein Modell' -o here.plan --quiet --target 'Modelle é 词/own target.yaml' --chunks 8
check "compiles there" compiler "$named\\Modelle é 词\\ein Modell" -o "$named\\Modelle é 词\\ein Plan.plan" --quiet \
    --target "$named\\Modelle é 词\\own target.yaml" --chunks 8
check "the same plan" cmp here.plan 'Modelle é 词/ein Plan.plan'
check "external weights here" "$DOPPLERC" "$model" -o weighty.plan --quiet --weights external --chunks 8
cp weighty.plan here.plan
mv weighty.plan.weights here.weights
check "and there" compiler "$model" -o "Modelle é 词\\weighty.plan" --quiet --weights external --chunks 8
check "the plan names them alike" cmp here.plan 'Modelle é 词/weighty.plan'
check "and they are the same" cmp here.weights 'Modelle é 词/weighty.plan.weights'
mv here.weights weighty.plan.weights
check "and are found" diff <("$EXEC" here.plan --info) <(windows "Modelle é 词\\weighty.plan" --info)
check "a kernel path here" "$DOPPLERC" "$demo" -o here.plan --quiet --kernel-path 'Modelle é 词/own path.yaml' --chunks 8
check "and there" compiler "$demo" -o there.plan --quiet --kernel-path 'Modelle é 词\own path.yaml' --chunks 8
check "is the same" cmp here.plan there.plan

# A model in the place of a plan: compiled once, and kept.
small=(--ctx 64 --chunks 8)
ask=(-p 'ROMEO:' -n 12 --temp 0 --quiet --print-ids)
plans=$XDG_CACHE_HOME/doppler/plans
kept_plans() { find "$plans" -name '*.plan' -printf '%f %i\n' 2>/dev/null | sort; }
"$EXEC" "$demo" "${small[@]}" "${ask[@]}" >here.out
rm -rf "$plans"
check "a model is compiled and run" windows "$demo" "${small[@]}" "${ask[@]}"
windows "$demo" "${small[@]}" "${ask[@]}" >there.out
check "and writes what it writes here" cmp here.out there.out
first=$(kept_plans)
check "its plan is kept" test "$(wc -l <<<"$first")" = 1
windows "Z:${demo//\//\\}" "${small[@]}" "${ask[@]}" >there.out
check "and found again" test "$(kept_plans)" = "$first"
check "by another name of the model" cmp here.out there.out
rm -rf elsewhere
kept_elsewhere() { XDG_CACHE_HOME="$named\\elsewhere\\made now" windows "$demo" "${small[@]}" "${ask[@]}"; }
check "a cache in a folder of Windows" kept_elsewhere
check "has the plan" test -n "$(find 'elsewhere/made now/doppler/plans' -name '*.plan')"

# Errors.
head -c 1000 p.plan >short.plan
same "no plan" no.plan
same "a plan that is cut short" short.plan
same "an unknown option" p.plan --bogus
compared "$DOPPLERC" compiler "no model" no.model -o none.plan
compared "$DOPPLERC" compiler "no target" "$model" -o none.plan --target none
compared "$DOPPLERC" compiler "no folder" "$model" -o none/none.plan --chunks 8
compared "$DOPPLERC" compiler "an option that is unknown" "$model" --bogus
check "no plan of these" test ! -e none.plan
sed -i '1i #error' doppler/share/doppler/glsl/*.glsl
wrong() { ! compiler "$model" -o none.plan --quiet --chunks 8; }
check "templates are those beside the library" wrong
mv doppler/bin/libdopplerc.dll compiler.dll
check_fails "a model, without the compiler" 2 'libdopplerc.dll' windows "$demo" -p hi --ctx 32
timeout 60 wineserver -k
kill "$display" 2>/dev/null
finish
