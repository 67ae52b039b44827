#!/bin/bash
# A server under load: many clients, each asking again as soon as it has its answer, or at a stated rate.
#
#   serve.sh PLAN [options]
#
#   --bin DIR        where doppler-exec and tools/clients are (default: build/ of this tree, tests/tools in it)
#   --clients LIST   clients at once (default 1,8,32)
#   --prompt N       words of a prompt (default 128)
#   --answer N       tokens of an answer (default 64)
#   --rate X         requests a second of each client (default: the next follows the last)
#   --seconds S      of each measurement (default 20); clients finish what they have begun
#   --json MEMBERS   of every request (default "temperature":1); several times: each is measured, in turns
#   --times N        measurements of each (default 1); the row is the one with the median of tokens a second
#   --tokenizer F    for plans without one
#   --peer COMMAND   another server of the same API, to be started by this command; it is to serve --peer-port (8090)
#
# Prints a row per number of clients and members: tokens a second of all together (in the second half of the time, while all are
# busy), milliseconds to the first token and between tokens at p50, p95 and p99, the slowest client's p95 as a multiple of the
# median client's, and of a step of our server the ms on the device and those of picking on the host.
set -euo pipefail

die() { echo "serve.sh: $*" >&2 && exit 2; }
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
plan=$1 bin=$root/build list=1,8,32 prompt=128 answer=64 rate=0 seconds=20 times=1 tokenizer='' peer='' peer_port=8090 members=()
shift
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
    --bin) bin=$2 ;; --clients) list=$2 ;; --prompt) prompt=$2 ;; --answer) answer=$2 ;; --rate) rate=$2 ;;
    --seconds) seconds=$2 ;; --times) times=$2 ;; --json) members+=("$2") ;; --tokenizer) tokenizer=$2 ;;
    --peer) peer=$2 ;; --peer-port) peer_port=$2 ;;
    *) die "unknown option $1" ;;
    esac
    shift 2
done
[ ${#members[@]} -gt 0 ] || members=('"temperature":1')
clients=$bin/tests/tools/clients
[ -x "$clients" ] || clients=$bin/clients
[ -x "$clients" ] || die "no program clients in $bin"
tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$tmp"' EXIT

# Sums of what a server counts: seconds of steps, seconds of picking, steps.
counted() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 && cat <&3) 2>/dev/null |
        awk '/^doppler_step_seconds_sum/ { s = $2 } /^doppler_pick_seconds_sum/ { p = $2 } /^doppler_steps_total/ { n = $2 }
             END { print s + 0, p + 0, n + 0 }'
}

# What clients printed as a row of the table, behind the value that rows are sorted by.
row() { # WHO CLIENTS MEMBERS COUNTED COUNTED
    sed -E 's/[{},":]/ /g' "$tmp/row" | awk -v who="$1" -v n="$2" -v json="${3//\\/\\\\}" -v before="$4" -v after="$5" '
        { for (i = 1; i < NF; i++) v[$i, ++seen[$i]] = $(i + 1) }
        function three(k) { return v["p50", k] " / " v["p95", k] " / " v["p99", k] }
        END {
            split(before, b)
            split(after, a)
            rate = v["steadyTokensPerSec", 1]
            printf "%s | %s | %s | `%s` | %s | %s | %s | %s | %s | ", rate, who, n, json, rate, three(1), three(2),
                   v["worstP95OverMedian", 1], v["errors", 1]
            if ((steps = a[3] - b[3]) > 0)
                printf "%.2f + %.2f", 1e3 * (a[1] - b[1] - (a[2] - b[2])) / steps, 1e3 * (a[2] - b[2]) / steps
            print " |"
        }'
}

measure() { # WHO PORT
    local n i k before after
    for n in ${list//,/ }; do
        "$clients" "$2" "$n" 2 "$prompt" "$answer" "$rate" >/dev/null # warm
        for ((k = 0; k < times; k++)); do
            for ((i = 0; i < ${#members[@]}; i++)); do
                before=$(counted "$2")
                "$clients" "$2" "$n" "$seconds" "$prompt" "$answer" "$rate" "${members[i]}" >"$tmp/row"
                after=$(counted "$2")
                row "$1" "$n" "${members[i]}" "$before" "$after" >>"$tmp/rows.$i"
            done
        done
        for ((i = 0; i < ${#members[@]}; i++)); do
            sort -n "$tmp/rows.$i" | sed -n "$(((times + 1) / 2))s/^[^|]*//p"
            rm "$tmp/rows.$i"
        done
    done
}

echo "| server | clients | request | tokens/s | first token ms (p50/p95/p99) | per token ms (p50/p95/p99) |" \
    "worst p95 / median | errors | step ms: device + picking |"
echo "|---|---:|---|---:|---|---|---:|---:|---|"
# shellcheck disable=SC2086 # an option or nothing
"$bin/doppler-exec" "$plan" --serve 0 --ordering barriers ${tokenizer:+--tokenizer "$tokenizer"} >"$tmp/log" 2>&1 &
pid=$!
port=
for _ in $(seq 1200); do
    port=$(sed -nE 's/^serving .* on http:[^ ]+:([0-9]+) .*/\1/p' "$tmp/log")
    [ -n "$port" ] && break
    kill -0 "$pid" 2>/dev/null || { cat "$tmp/log" >&2 && exit 1; }
    sleep 0.1
done
measure doppler "$port"
kill "$pid"
wait "$pid" || true
pid=
if [ -n "$peer" ]; then
    command -v "${peer%% *}" >/dev/null || die "the peer's server, ${peer%% *}, is not here"
    bash -c "exec $peer" >"$tmp/peer" 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        (exec 3<>"/dev/tcp/127.0.0.1/$peer_port") 2>/dev/null && break
        kill -0 "$pid" 2>/dev/null || { cat "$tmp/peer" >&2 && exit 1; }
        sleep 0.2
    done
    sleep 2
    measure peer "$peer_port"
else
    echo "(without --peer there is no other server beside it)" >&2
fi
