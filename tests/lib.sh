# Sourced by every script test:   . "$(dirname "$0")/../lib.sh"
#
# ctest runs a script as   bash SCRIPT DOPPLERC DOPPLER_EXEC TOOLS WORK [ARGUMENT...]   (tests/CMakeLists.txt), so that
# a test depends on no environment variable.  This file leaves "$@" as the further arguments and gives it
#   $DOPPLERC $EXEC   the two programs             $TOOLS   folder of the programs made from tests/tools/*.c
#   $SRC              the root of the sources      $SHARED  data beside the project, may be absent
#   $WORK             an empty folder of its own, which is also the current directory
# and the functions below.  A script ends with `finish`, which prints the counts that tests/run.sh adds up; one that
# ends without it has failed.
set -u

if [ $# -lt 4 ]; then
    echo "usage: $0 DOPPLERC DOPPLER_EXEC TOOLS WORK [ARGUMENT...]" >&2
    exit 2
fi
DOPPLERC=$1 EXEC=$2 TOOLS=$3 WORK=$4
shift 4
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SHARED=$SRC/../shared
rm -rf "$WORK"
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
cd "$WORK" || exit 2
# Pipelines that an earlier run compiled prove nothing.  What Mesa makes of them (machine code, slowly) may be shared.
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-$WORK}/.cache}}
export XDG_CACHE_HOME=$WORK/cache

PASSED=0 FAILED=0 SKIPPED=0

pass() { # NAME
    PASSED=$((PASSED + 1))
    echo "ok      $1"
}

fail() { # NAME [WHY]
    FAILED=$((FAILED + 1))
    echo "FAILED  $1${2:+: $2}"
}

skip() { # NAME WHY
    SKIPPED=$((SKIPPED + 1))
    echo "skipped $1: $2"
}

# check NAME COMMAND...: passes when the command succeeds; shows what it printed when it does not.
check() {
    local name=$1 status=0
    shift
    "$@" >"$WORK/.out" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        pass "$name"
    else
        fail "$name" "status $status from: $*"
        sed 's/^/    | /' "$WORK/.out" | tail -n 40
        return 1
    fi
}

# check_fails NAME STATUS TEXT COMMAND...: passes when the command exits with exactly STATUS, prints nothing to stdout
# and exactly one line to stderr, which contains TEXT.
check_fails() {
    local name=$1 want=$2 text=$3 status=0
    shift 3
    "$@" >"$WORK/.out" 2>"$WORK/.err" || status=$?
    if [ "$status" -ne "$want" ]; then
        fail "$name" "status $status instead of $want from: $*"
    elif [ -s "$WORK/.out" ]; then
        fail "$name" "printed to stdout"
    elif [ "$(wc -l <"$WORK/.err")" -ne 1 ]; then
        fail "$name" "$(wc -l <"$WORK/.err") lines on stderr instead of one"
    elif ! grep -qF -e "$text" "$WORK/.err"; then
        fail "$name" "the message does not say: $text"
    else
        pass "$name"
        return 0
    fi
    sed 's/^/    | /' "$WORK/.out" "$WORK/.err" | tail -n 40
    return 1
}

# defaults "OPTION VALUE OPTION VALUE..." ARGUMENT...: sets OPTIONS to the arguments and those of the defaults whose option is not among
# them, because programs refuse an option that is given twice.
defaults() {
    local pairs i
    read -ra pairs <<<"$1"
    shift
    OPTIONS=("$@")
    for ((i = 0; i < ${#pairs[@]}; i += 2)); do
        [[ " $* " == *" ${pairs[i]} "* ]] || OPTIONS+=("${pairs[@]:i:2}")
    done
}

# slow: how many times longer than on an idle machine work may take now: 1 and the load of each processor.
slow() { awk -v n="$(nproc)" '{ load = $1 > $2 ? $1 : $2; printf "%d\n", 1 + load / n }' /proc/loadavg; }

# in_time FROM SECONDS: true if since $SECONDS was FROM no more than SECONDS have passed, on a busy machine so many times more.
in_time() { [ $((SECONDS - $1)) -le $(($2 * $(slow))) ]; }

# in_ms FROM MS: the same of milliseconds, since FROM, which is the time in nanoseconds (date +%s%N).
in_ms() { [ $((($(date +%s%N) - $1) / 1000000)) -lt $(($2 * $(slow))) ]; }

# finish: prints the counts and exits with 1 on a failure, 77 (ctest's "skipped") when everything was skipped, else 0.
finish() {
    trap - EXIT
    echo "# $PASSED passed, $FAILED failed, $SKIPPED skipped"
    [ "$FAILED" -eq 0 ] || exit 1
    [ "$PASSED" -gt 0 ] || [ "$SKIPPED" -eq 0 ] || exit 77
    if [ "$PASSED" -eq 0 ]; then
        echo "a script that checks nothing proves nothing"
        exit 1
    fi
    exit 0
}
trap 'echo "the script ended early"; exit 1' EXIT
