#!/bin/bash
# The same GGUF through Doppler and through llama.cpp's Vulkan backend, in turn, on the same device.
#
#   peer.sh MODEL.gguf --peer DIR [options]
#
#   --peer DIR       where llama.cpp's libraries and bench_llama are; fetched into it when missing (needs npm and cc)
#   --bin DIR        where dopplerc and doppler-exec are (default: build/ of this tree)
#   --plan FILE      use this plan, compile nothing
#   --work DIR       where the plan goes (default: beside the model)
#   --compile "..."  more options for dopplerc, as "--target nvidia-hopper --chunks 64,512"
#   -p N  -n N       prompt length and tokens to generate (default 512 and 128; 0: not measured)
#   -d LIST          depths (default 0)
#   -b LIST          numbers of sequences that generate at once, a token of each per step (default 1); tgNbB is tokens of all
#                    of them together.  Above 1 the peer measures no prompts
#   -r N             rounds (default 5); in each, both programs run once
#   -k N             measurements of each test in a round, whose median counts (default 1)
#   --floor GB/S     read bandwidth of the device, where doppler-exec does not know it
#   --commit NAME    for the table (default: what git says)
#   --append FILE    append the rows to a table, as RESULTS.md
#
# Prints every round, and a table with medians, their ratio, and the least and the greatest ratio of a round.  What each
# program times is the same: ppN a prompt of N tokens until the next token is known, tgN N single steps.  The peer's
# first measurement in each run is dropped (it compiles shaders on first use), as is Doppler's.  Each run is a process
# of its own, so that neither finds the device's memory taken by the other.
#
# A model to try: cc -O2 -D_GNU_SOURCE -I. -Iinclude tests/bench/make_gguf.c base/*.c base/os/*.c -lm -lpthread -o make_gguf
#                 ./make_gguf smollm2-135m q4_0 model.gguf
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
die() { echo "peer.sh: $*" >&2 && exit 2; }

model='' peer='' bin=$root/build plan='' work='' compile='' floor='' commit='' append=''
p=512 n=128 depths=0 batches=1 rounds=5 k=1
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --peer | --bin | --plan | --work | --compile | -p | -n | -d | -b | -r | -k | --floor | --commit | --append)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --peer) peer=$2 ;; --bin) bin=$2 ;; --plan) plan=$2 ;; --work) work=$2 ;; --compile) compile=$2 ;;
        -p) p=$2 ;; -n) n=$2 ;; -d) depths=${2//,/ } ;; -b) batches=${2//,/ } ;; -r) rounds=$2 ;; -k) k=$2 ;;
        --floor) floor=$2 ;; --commit) commit=$2 ;; --append) append=$2 ;;
        esac
        shift 2 ;;
    -*) die "unknown option $1; see --help" ;;
    *) [ -z "$model" ] || die "one model at a time"; model=$1; shift ;;
    esac
done
if [ -z "$model" ] || [ -z "$peer" ]; then die "usage: peer.sh MODEL.gguf --peer DIR [options]; see --help"; fi
[ -r "$model" ] || die "$model: cannot read"
work=${work:-$(dirname "$model")}
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

if [ ! -x "$peer/bench_llama" ] || [ ! -d "$peer/vulkan" ]; then
    echo "fetching llama.cpp's libraries into $peer" >&2
    sh "$root/../shared/peers/get_llama.sh" "$peer" >&2
fi

# ---- the plan: large enough for the longest test --------------------------------------------------------------------
most=0
for d in $depths; do
    for x in $((d + p)) $((d + n)); do [ "$x" -le "$most" ] || most=$x; done
done
sequences=''
if [ "$batches" != 1 ]; then
    rows=$(tr ' ' '\n' <<<"$batches" | grep -vx 1 | sort -g)
    sequences="--sequences $(tail -n 1 <<<"$rows") --rows $(paste -sd, <<<"$rows")"
fi
if [ -z "$plan" ]; then
    plan=$work/$(basename "$model" .gguf)-peer.plan
    # shellcheck disable=SC2086 # several options in one value
    "$bin/dopplerc" "$model" -o "$plan" --ctx $(((most + 255) / 256 * 256)) --quiet $sequences $compile
fi

# ---- on a software device the peer must be told to take it, and how many threads it has -----------------------------
peer_options=()
if "$bin/doppler-exec" --list-devices | head -n 1 | grep -q '(software)'; then
    export GGML_VK_VISIBLE_DEVICES=0
    peer_options=(-t "$(nproc)")
fi

# ---- rounds: one line "who test rate" per measurement in $tmp/all ---------------------------------------------------
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

ours() { # DEPTH ROUND SEQUENCES
    local prompt=$p
    [ "$3" = 1 ] || prompt=0
    "$bin/doppler-exec" --bench "$plan" -p "$prompt" -n "$n" -d "$1" -b "$3" -r "$k" -o json --quiet \
        ${floor:+--floor "$floor"} >"$tmp/ours.json"
    # One result after another, each with its test, median, GB/s and share of the floor.
    awk -v round="$2" '
        { gsub(/[",]/, "") }
        $1 == "test:" { test = $2 }
        $1 == "median:" { rate = $2 }
        $1 == "GBps:" { gbps = $2 + 0 } # null: 0
        $1 == "floorShare:" { print "ours", test, round, rate, $2 + 0, gbps }
        $1 == "device:" { sub(/^ *device: /, ""); print "#device", $0 }
        $1 == "driver:" { sub(/^ *driver: /, ""); print "#driver", $0 }' "$tmp/ours.json" >>"$tmp/all"
}

theirs() { # DEPTH ROUND SEQUENCES
    "$peer/bench_llama" "$peer/vulkan" "$model" -p "$p" -n "$n" -d "$1" -b "$3" -r $((k + 1)) "${peer_options[@]}" \
        >"$tmp/theirs.txt" 2>"$tmp/theirs.err" || { cat "$tmp/theirs.err" >&2; die "the peer failed"; }
    [ "$3" = 1 ] || sed -i 's/^\(tg[0-9]*\)\(@d[0-9]*\) b\([0-9]*\) /\1b\3\2 /' "$tmp/theirs.txt" # as ours: tg128b4@d0
    sed -n 's/^\([pt][pg][0-9b]*@d[0-9]*\) .*/\1/p' "$tmp/theirs.txt" | sort -u | while read -r test; do
        rate=$(sed -n "s/^$test  \([0-9.]*\) tok.*/\1/p" "$tmp/theirs.txt" | tail -n +2 | median)
        echo "peer ${test%@d0} $2 $rate" >>"$tmp/all"
    done
}

for round in $(seq "$rounds"); do
    for d in $depths; do
        for b in $batches; do
            ours "$d" "$round" "$b"
            theirs "$d" "$round" "$b"
        done
    done
    awk -v r="$round" '$3 == r && $1 !~ /^#/ { printf "round %s: %s %s %.2f tok/s\n", r, $1, $2, $4 }' "$tmp/all" >&2
done

# ---- the table ------------------------------------------------------------------------------------------------------
fact() { sed -n "s/^#$1 //p" "$tmp/all" | head -n 1; }
[ -n "$commit" ] || commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
head='| device | driver | date | commit | shape | test | ours t/s | peer t/s | ratio (rounds) | GB/s | % of floor |'
rule='|---|---|---|---|---|---|---:|---:|---:|---:|---:|'
: >"$tmp/rows"
awk '$1 == "ours" && !seen[$2]++ { print $2 }' "$tmp/all" | while read -r test; do
    a=$(awk -v t="$test" '$1 == "ours" && $2 == t { print $4 }' "$tmp/all" | median)
    b=$(awk -v t="$test" '$1 == "peer" && $2 == t { print $4 }' "$tmp/all" | median)
    share=$(awk -v t="$test" '$1 == "ours" && $2 == t { print $5 }' "$tmp/all" | median)
    gbps=$(awk -v t="$test" '$1 == "ours" && $2 == t { print $6 }' "$tmp/all" | median)
    awk -v t="$test" -v a="$a" -v b="$b" -v share="$share" -v gbps="$gbps" -v commit="$commit" -v date="$(date -u +%F)" \
        -v device="$(fact device)" -v driver="$(fact driver)" -v shape="$(basename "$model" .gguf)" '
        $2 == t && $1 == "ours" { ours[$3] = $4 }
        $2 == t && $1 == "peer" { peer[$3] = $4 }
        END {
            for (r in ours)
                if (peer[r] > 0) {
                    x = ours[r] / peer[r]
                    if (!n++ || x < lo) lo = x
                    if (n == 1 || x > hi) hi = x
                }
            floor = share > 0 ? sprintf("%.1f%%", 100 * share) : "-"
            bytes = gbps > 0 ? sprintf(gbps < 100 ? "%.1f" : "%.0f", gbps) : "-"
            ratio = b > 0 ? a / b : 0
            printf("| %s | %s | %s | %s | %s | %s | %.2f | %.2f | %.2f (%.2f .. %.2f) | %s | %s |\n", device, driver,
                date, commit, shape, t, a, b, ratio, lo, hi, bytes, floor)
        }' "$tmp/all" >>"$tmp/rows"
done
echo
echo "$head"
echo "$rule"
cat "$tmp/rows"
if [ -n "$append" ]; then
    grep -qF "$head" "$append" 2>/dev/null || printf '%s\n%s\n' "$head" "$rule" >>"$append"
    cat "$tmp/rows" >>"$append"
fi
