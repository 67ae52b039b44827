# The server under ThreadSanitizer (DOPPLER_SANITIZE=thread): 64 mixed clients of two models for three minutes, or as many seconds as the
# argument says.  Not in the default run: ctest -L tsan.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"
command -v python3 >/dev/null || { skip "the server" "there is no python3"; trap - EXIT; finish; exit; }
mkdir models
for name in one two; do
    check "a plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o models/$name.plan --ctx 512 --chunks 32 --sequences 4 --rows 4 --embed \
        --target lavapipe --quiet
done
export TSAN_OPTIONS="exitcode=66 log_path=$WORK/race ignore_noninstrumented_modules=1"
start log "$EXEC" --models models --serve 0 --chat-template chatml --store 20 --log json
check "64 mixed clients" python3 -B "$SRC/tests/serve/mixed.py" "$url" 64 "${1:-180}" one two
stop
check "no data race" [ -z "$(cat race.* 2>/dev/null)" ]
cat race.* 2>/dev/null | grep -A12 '^WARNING' | head -60
trap - EXIT
finish
