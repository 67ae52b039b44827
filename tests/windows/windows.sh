# Doppler for 64-bit Windows: cross-compiled with MinGW-w64, and run under Wine on the drivers of this machine.  Plans that were compiled here
# run there, and what the program prints, byte by byte, is what it prints here: text, ids, logits, errors.
# $1: a folder that keeps the libraries (tests/windows/libraries.sh) and the build from run to run.
. "$(dirname "$0")/../lib.sh"
for tool in x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-dlltool wine Xvfb; do
    command -v "$tool" >/dev/null || {
        skip "Windows" "no $tool (packages gcc-mingw-w64-x86-64-posix, wine, wine64, xvfb)"
        finish
    }
done
kept=$1/windows
mkdir -p "$kept"
if ! timeout 3000 bash "$SRC/tests/windows/libraries.sh" "$kept/libraries" runtime >libraries.log 2>&1; then
    skip "Windows" "its libraries cannot be built: $(tail -n 1 libraries.log)"
    finish
fi

build() {
    cmake -S "$SRC" -B "$kept/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$SRC/tests/windows/toolchain.cmake" \
        -DDOPPLER_WINDOWS_LIBRARIES="$kept/libraries" -DDOPPLER_COMPILER=OFF -DDOPPLER_MPI=OFF -DDOPPLER_FETCH=OFF -DDOPPLER_AUDIO=OFF \
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
check "starts" windows --version || finish
check "is of the same release" diff <("$EXEC" --version | cut -d ' ' -f 1-2) <(windows --version | cut -d ' ' -f 1-2)
check "says that it has no server" grep -q 'no server' <(windows --help)
check_fails "--serve is refused" 2 'built without the server' windows p.plan --serve 0
check "has the driver of this machine" diff <("$EXEC" --list-devices) <(windows --list-devices)

# same NAME ARGUMENT...: both programs print the same, and end the same.
same() {
    local name=$1 here=0 there=0
    shift
    "$EXEC" "$@" >here.out 2>here.err </dev/null || here=$?
    windows "$@" >there.out 2>there.err </dev/null || there=$?
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

# Errors.
head -c 1000 p.plan >short.plan
same "no plan" no.plan
same "a plan that is cut short" short.plan
same "an unknown option" p.plan --bogus
check_fails "a model, without the compiler" 2 'libdopplerc.dll' windows "$demo" -p hi
timeout 60 wineserver -k
kill "$display" 2>/dev/null
finish
