#!/bin/bash
# Time from process start to the first token of a prompt, with empty caches of compiled kernels and with warm ones.
#
#   start.sh PLAN... [--bin DIR] [-r N] [-p N]
#
#   --bin DIR  where doppler-exec is (default: build/ of this tree)
#   -r N       runs of each kind (default 5)
#   -p N       prompt length (default 16)
#
# Prints medians, and the least and the greatest, in milliseconds: from before the process is made to the first byte on
# its standard output.  Caches live in a folder of the run's own, so that the user's stay as they are: "empty" also means
# the driver's, as far as it keeps it where XDG_CACHE_HOME or HOME say.  Files are read once before, so that they are in
# the page cache.  `doppler-exec -v` shows where the time goes.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
die() { echo "start.sh: $*" >&2 && exit 2; }

bin=$root/build runs=5 prompt=16 plans=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --bin | -r | -p)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in --bin) bin=$2 ;; -r) runs=$2 ;; -p) prompt=$2 ;; esac
        shift 2 ;;
    -*) die "unknown option $1; see --help" ;;
    *) plans+=("$1"); shift ;;
    esac
done
[ ${#plans[@]} -gt 0 ] || die "usage: start.sh PLAN... [options]; see --help"
[ -x "$bin/doppler-exec" ] || die "$bin/doppler-exec: not there; see --bin"
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
tokens=$(seq -s ' ' 1 "$prompt")

# first PLAN: milliseconds to the first byte.
first() {
    local from=$EPOCHREALTIME to
    HOME=$tmp/home XDG_CACHE_HOME=$tmp/home/.cache "$bin/doppler-exec" "$1" --tokens "$tokens" -n 1 --print-ids --quiet |
        {
            IFS= read -r -N 1 _
            to=$EPOCHREALTIME
            cat >/dev/null
            awk -v a="${from/,/.}" -v b="${to/,/.}" 'BEGIN { printf "%.1f\n", (b - a) * 1e3 }'
        }
}

summary() { sort -g | awk '{ v[NR] = $1 } END { printf "%.0f (%.0f to %.0f)", v[int((NR + 1) / 2)], v[1], v[NR] }'; }

printf '| plan | empty caches, ms | warm, ms |\n|---|---:|---:|\n'
for plan in "${plans[@]}"; do
    cat "$plan" >/dev/null
    : >"$tmp/cold" && : >"$tmp/warm"
    for _ in $(seq "$runs"); do
        rm -rf "$tmp/home" && mkdir "$tmp/home"
        first "$plan" >>"$tmp/cold"
    done
    for _ in $(seq "$runs"); do first "$plan" >>"$tmp/warm"; done
    printf '| %s | %s | %s |\n' "$(basename "$plan" .plan)" "$(summary <"$tmp/cold")" "$(summary <"$tmp/warm")"
done
