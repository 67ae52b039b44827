# Ranks without a plan (tests/tools/ranks.c): messages arrive in order whatever their size, and ranks that are lost are noticed.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_ranks.sh"
without_ranks
# Sanitizers name what MPI keeps (tests/lsan.supp) by who called malloc, which the quick way to walk a stack does not find.
[ -z "${ASAN_OPTIONS:-}" ] || export ASAN_OPTIONS=$ASAN_OPTIONS:fast_unwind_on_malloc=0

check "three ranks talk" ranks 3 "$TOOLS/ranks" talk
check "three ranks talk, in messages only" ranks 3 "$TOOLS/ranks" messages

# lost HOW SECONDS REGEX: all ranks end within SECONDS, with a line that names the rank and the reason.
lost() {
    local from=$SECONDS status=0
    timeout -k 1 $((30 * $(slow))) bash -c ". '$SRC/tests/lib_ranks.sh'; ranks 3 '$TOOLS/ranks' $1 2" >"$1.out" 2>"$1.err" || status=$?
    if [ "$status" -eq 0 ] || [ "$status" -eq 124 ] || ! in_time "$from" "$2"; then
        fail "$1" "status $status after $((SECONDS - from)) s"
    elif [ "$(cat "$1.out" "$1.err" | grep -cE "$3")" -ne 1 ] || [ "$(cat "$1.out" "$1.err" | grep -c '[^ ]')" -ne 1 ]; then
        fail "$1" "no line, or several: $(cat "$1.out" "$1.err")"
    else
        pass "$1"
    fi
}

lost fail 6 '^lost: rank 2 on [^ ]+: the device was lost$'
lost kill 6 '^lost: rank 2 on [^ ]+ has ended: it was killed, or crashed$'
lost stop 8 '^lost: rank 2 on [^ ]+ has not answered for 2 s'
lost idle-stop 9 '^doppler-exec: error: rank 2 on [^ ]+ has not answered for 2 s'
lost first-kill 6 '^doppler-exec: error: rank 0 on [^ ]+ has ended: it was killed, or crashed$'
lost first-stop 9 '^doppler-exec: error: rank 0 on [^ ]+ has not answered for 2 s'
finish
