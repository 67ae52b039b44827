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
#   --tokenizer F    for plans without one
#   --peer COMMAND   another server of the same API, to be started by this command; it is to serve --peer-port (8090)
#
# Prints a row per number of clients: tokens a second of all together, milliseconds to the first token and between tokens
# at p50, p95 and p99, and the slowest client's p95 as a multiple of the median client's.
set -euo pipefail

die() { echo "serve.sh: $*" >&2 && exit 2; }
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
plan=$1 bin=$root/build list=1,8,32 prompt=128 answer=64 rate=0 seconds=20 tokenizer='' peer='' peer_port=8090
shift
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
    --bin) bin=$2 ;; --clients) list=$2 ;; --prompt) prompt=$2 ;; --answer) answer=$2 ;; --rate) rate=$2 ;;
    --seconds) seconds=$2 ;; --tokenizer) tokenizer=$2 ;; --peer) peer=$2 ;; --peer-port) peer_port=$2 ;;
    *) die "unknown option $1" ;;
    esac
    shift 2
done
clients=$bin/tests/tools/clients
[ -x "$clients" ] || clients=$bin/clients
[ -x "$clients" ] || die "no program clients in $bin"
tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$tmp"' EXIT

measure() { # WHO PORT
    for n in ${list//,/ }; do
        "$clients" "$2" "$n" 3 "$prompt" "$answer" "$rate" >/dev/null # warm
        "$clients" "$2" "$n" "$seconds" "$prompt" "$answer" "$rate" >"$tmp/row"
        sed -E 's/[{},":]/ /g' "$tmp/row" | awk -v who="$1" -v n="$n" '
            { for (i = 1; i < NF; i++) v[$i, ++seen[$i]] = $(i + 1) }
            END { printf "| %s | %s | %s | %s / %s / %s | %s / %s / %s | %s | %s |\n", who, n, v["tokensPerSec", 1],
                  v["p50", 1], v["p95", 1], v["p99", 1], v["p50", 2], v["p95", 2], v["p99", 2], v["worstP95OverMedian", 1],
                  v["errors", 1] }'
    done
}

echo "| server | clients | tokens/s | first token ms (p50/p95/p99) | per token ms (p50/p95/p99) | worst p95 / median | errors |"
echo "|---|---:|---:|---|---|---:|---:|"
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
kill "$pid" && wait "$pid" || true
pid=
if [ -n "$peer" ]; then
    bash -c "exec $peer" >"$tmp/peer" 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        curl -sf "http://127.0.0.1:$peer_port/health" >/dev/null && break
        sleep 0.2
    done
    measure peer "$peer_port"
fi
