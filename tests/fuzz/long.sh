#!/usr/bin/env bash
# Runs the fuzz targets for long, all at the same time, and says what came of it.
#
#   cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DDOPPLER_SANITIZE=ON -DDOPPLER_FUZZ=ON
#   cmake --build build-fuzz --target fuzz dopplerc_as_written hf_to_gguf hf_to_rdrr single_file
#   tests/fuzz/long.sh build-fuzz/tests/tools OUT SECONDS [JOBS [TARGET...]]
#
# JOBS processes are shared among the targets, at least one each.  Inputs come from this tree (seeds.sh) and tests/fuzz/corpus, or
# from `corpus` beside the program.  OUT gets corpus/TARGET.tar.xz (of all inputs few that reach the branches which those of seeds.sh
# do not: what tests/fuzz/corpus is to hold), found/TARGET (inputs that fail, and logs of them), and table.txt: target, processor
# minutes, runs, edges, inputs that are kept, findings.
set -u
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")" && pwd) tools=$(cd "$1" && pwd) out=$2 seconds=$3 jobs=${4:-$(nproc)}
shift "$(($# < 4 ? $# : 4))"
if [ -x "$tools/as_written/dopplerc" ]; then # else it was brought along
    "$tools/as_written/dopplerc" "$here/../golden/llama" -o "$tools/fuzz.plan" --quiet --target tier3 --chunks 8 --ctx 64 --embed ||
        exit 1
fi
ln -sfn "$here/../diffusion/sd15" "$tools/fuzz.draws"
if [ $# -eq 0 ]; then
    set -- $(find "$tools" -name 'fuzz_*' -type l -printf '%f\n' | sed 's/^fuzz_//' | sort)
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
limits=(-timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=128)

one() { # TARGET FORKS
    local dir=$out/run/$1 found=$out/found/$1 corpus=$tools/corpus/$1 time n findings
    mkdir -p "$dir/new" "$dir/seeds" "$dir/$1" "$found" "$out/corpus"
    cd "$dir" || return
    if [ ! -d "$corpus" ]; then
        corpus=$dir/$1.old
        mkdir "$corpus"
        [ ! -e "$here/corpus/$1.tar.xz" ] || tar -xJf "$here/corpus/$1.tar.xz" -C "$corpus"
    fi
    [ ! -e "$here/seeds.sh" ] || bash "$here/seeds.sh" "$1" seeds "$tools"
    TIMEFORMAT='%U %S'
    time=$({ time "$tools/fuzz_$1" new "$corpus" seeds -fork="$2" -max_total_time="$seconds" "${limits[@]}" -max_len=131072 \
        -artifact_prefix="$found/" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 >log 2>&1; } 2>&1 | tail -n 1)
    cp -r seeds all
    timeout 300 "$tools/fuzz_$1" -merge=1 -use_counters=0 "${limits[@]}" -max_len=131072 -artifact_prefix="$found/" \
        all "$corpus" new >merge.log 2>&1
    for input in all/*; do
        [ ! -e "$input" ] || [ -e "seeds/${input#all/}" ] || cp "$input" "$1/"
    done
    tar --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$out/corpus/$1.tar.xz" "$1"
    findings=$(find "$found" -type f | wc -l)
    if [ "$findings" -gt 0 ]; then
        grep -aE 'ERROR|SUMMARY|^ +#[0-9]|runtime error|^status|Test unit' log | head -n 400 >"$found/log.txt"
    fi
    n=$(grep -aoE '^#[0-9]+' log | tail -n 1 | tr -d '#')
    edges=$(grep -aoE 'cov: [0-9]+' log | tail -n 1 | tr -dc 0-9)
    printf '%-20s %9s %11s %7s %7s %9s\n' "$1" "$(awk -v t="$time" 'BEGIN { split(t, a, " "); printf "%.1f", (a[1] + a[2]) / 60 }')" \
        "${n:-0}" "${edges:-0}" "$(find "$1" -type f | wc -l)" "$findings" >"$dir/row"
}

forks=$((jobs / $#)) more=$((jobs % $#)) i=0
[ "$forks" -gt 0 ] || forks=1 more=0
for target; do
    one "$target" $((forks + (i < more))) &
    i=$((i + 1))
done
wait
printf '%-20s %9s %11s %7s %7s %9s\n' target 'CPU min' runs edges inputs findings >"$out/table.txt"
for target; do
    cat "$out/run/$target/row"
done >>"$out/table.txt"
cat "$out/table.txt"
[ -z "$(find "$out/found" -type f)" ]
