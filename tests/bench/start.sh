#!/bin/bash
# Time from process start to the first token of a prompt, with empty caches and with warm ones.
#
#   start.sh PLAN|MODEL... [--bin DIR] [-r N] [-p N]
#
#   MODEL      a directory or a GGUF file: with empty caches it is compiled, too, and the time of that is told apart
#   --bin DIR  where doppler-exec is (default: build/ of this tree)
#   -r N       runs of each kind (default 5)
#   -p N       prompt length (default 16)
#
# Prints medians, and the least and the greatest, in milliseconds: from before the process is made to the first byte on
# its standard output.  Caches live in a folder of the run's own, so that the user's stay as they are: "empty" also means
# the driver's, as far as it keeps it where XDG_CACHE_HOME or HOME say.  Files are read once before, so that they are in
# the page cache.  `doppler-exec -v` shows where the time goes.  With a GPU, a model of 1B parameters should take at most its compilation
# and a second when it is cold, and 300 ms again:
#
#   tests/bench/start.sh llama3.2-1b-q4_k.gguf        # of build/tests/tools/make_gguf llama3.2-1b q4_k llama3.2-1b-q4_k.gguf
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
[ ${#plans[@]} -gt 0 ] || die "usage: start.sh PLAN|MODEL... [options]; see --help"
[ -x "$bin/doppler-exec" ] || die "$bin/doppler-exec: not there; see --bin"
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
tokens=$(seq -s ' ' 1 "$prompt")

# first WHAT: milliseconds to the first byte, and those of them in which a model was compiled.
first() {
    local from=$EPOCHREALTIME to
    HOME=$tmp/home XDG_CACHE_HOME=$tmp/home/.cache "$bin/doppler-exec" "$1" --tokens "$tokens" -n 1 --print-ids -v 2>"$tmp/said" |
        {
            IFS= read -r -N 1 _
            to=$EPOCHREALTIME
            cat >/dev/null
            awk -v a="${from/,/.}" -v b="${to/,/.}" 'BEGIN { printf "%.1f ", (b - a) * 1e3 }'
        }
    sed -nE 's/^doppler-exec: compiled .* in ([0-9.]+) s: .*/\1/p' "$tmp/said" | awk '{ s = $1 } END { printf "%.0f\n", s * 1e3 }'
}

summary() { # COLUMN
    awk -v c="$1" '{ print $c }' | sort -g | awk '{ v[NR] = $1 } END { printf "%.0f (%.0f to %.0f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

printf '| plan or model | empty caches, ms | of these compiling | again, ms |\n|---|---:|---:|---:|\n'
for what in "${plans[@]}"; do
    find "$what" -type f -exec cat {} + >/dev/null
    : >"$tmp/cold" && : >"$tmp/warm"
    for _ in $(seq "$runs"); do
        rm -rf "$tmp/home" && mkdir "$tmp/home"
        first "$what" >>"$tmp/cold"
    done
    for _ in $(seq "$runs"); do first "$what" >>"$tmp/warm"; done
    [ "$(awk '$1 > 0' "$tmp/cold" "$tmp/warm" | wc -l)" = $((2 * runs)) ] || die "$(cat "$tmp/said")"
    printf '| %s | %s | %s | %s |\n' "$(basename "$what" .plan)" "$(summary 1 <"$tmp/cold")" "$(summary 2 <"$tmp/cold")" \
        "$(summary 1 <"$tmp/warm")"
done
