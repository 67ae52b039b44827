#!/bin/bash
# The same models through two builds of Doppler, in turn, on the same device: what a change cost or gained.  Plans of
# different versions cannot be read by one doppler-exec, so `--bench a.plan b.plan` does not do here.
#
#   builds.sh OLD NEW MODEL... [options]
#
#   OLD, NEW         folders with dopplerc and doppler-exec
#   --work DIR       where the plans go (default: a temporary folder)
#   --compile "..."  more options for both compilers
#   -p LIST -n LIST -d LIST   as doppler-exec --bench (default 512, 128 and 0)
#   -r N             rounds (default 5); in each, every build runs once, and which is first changes
#
# Prints a row per model and test: medians of both, their ratio (new to old), and the least and greatest ratio of a round.
# Each run is a process of its own.
set -euo pipefail

die() { echo "builds.sh: $*" >&2 && exit 2; }
[ $# -ge 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2; }
old=$1 new=$2 models=() work='' compile='' p=512 n=128 d=0 rounds=5
shift 2
while [ $# -gt 0 ]; do
    case $1 in
    --work | --compile | -p | -n | -d | -r)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --work) work=$2 ;; --compile) compile=$2 ;; -p) p=$2 ;; -n) n=$2 ;; -d) d=$2 ;; -r) rounds=$2 ;;
        esac
        shift 2 ;;
    -*) die "unknown option $1" ;;
    *) models+=("$1"); shift ;;
    esac
done
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
work=${work:-$tmp}

greatest() { tr , '\n' <<<"$1" | sort -g | tail -n 1; }
ctx=$(($(greatest "$d") + $(greatest "$p") + $(greatest "$n")))
ctx=$(((ctx + 255) / 256 * 256))

measure() { # WHO DIR ROUND: lines "who test round rate"
    "$2/doppler-exec" --bench "$work/$1.plan" -p "$p" -n "$n" -d "$d" -r 1 -o json --quiet >"$tmp/$1.json"
    awk -v who="$1" -v round="$3" '
        { gsub(/[",]/, "") }
        $1 == "test:" { test = $2 }
        $1 == "median:" { print who, test, round, $2 }' "$tmp/$1.json" >>"$tmp/all"
}
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

echo "| model | test | old t/s | new t/s | ratio (rounds) |"
echo "|---|---|---:|---:|---:|"
for model in "${models[@]}"; do
    : >"$tmp/all"
    # shellcheck disable=SC2086 # several options in one value
    for who in old new; do
        "${!who}/dopplerc" "$model" -o "$work/$who.plan" --ctx "$ctx" --quiet $compile
    done
    for round in $(seq "$rounds"); do
        if [ $((round % 2)) -eq 1 ]; then order='old new'; else order='new old'; fi
        for who in $order; do
            measure "$who" "${!who}" "$round"
        done
    done
    rm -f "$work/old.plan" "$work/new.plan"
    awk '$1 == "old" && !seen[$2]++ { print $2 }' "$tmp/all" | while read -r test; do
        a=$(awk -v t="$test" '$1 == "old" && $2 == t { print $4 }' "$tmp/all" | median)
        b=$(awk -v t="$test" '$1 == "new" && $2 == t { print $4 }' "$tmp/all" | median)
        awk -v t="$test" -v a="$a" -v b="$b" -v m="$(basename "$model" .gguf)" '
            $2 == t { rate[$1, $3] = $4; if ($3 > rounds) rounds = $3 }
            END {
                for (i = 1; i <= rounds; i++) {
                    r = rate["new", i] / rate["old", i]
                    if (i == 1 || r < least) least = r
                    if (i == 1 || r > most) most = r
                }
                printf "| %s | %s | %.4g | %.4g | %.3f (%.3f-%.3f) |\n", m, t, a, b, b / a, least, most
            }' "$tmp/all"
    done
done
