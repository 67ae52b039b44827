# Plans in parts against plans of the whole model: the same bits (tests/tools/parts.c runs all parts in one process).  Kernels are
# those of the other tests of these models.  The argument `whole` is the long form: every model, in as many parts as it can be cut
# into, too.
. "$(dirname "$0")/../lib.sh"

# parts MODEL "NUMBER OF PARTS..." OPTION...
parts() {
    local model=$1 numbers=$2 n
    shift 2
    check "a plan of $model $*" "$DOPPLERC" "$SRC/tests/golden/$model" -o whole.plan --quiet "$@" || return
    for n in $numbers; do
        check "$model in $n parts: compiles" "$DOPPLERC" "$SRC/tests/golden/$model" -o parts.plan --quiet --parts "$n" "$@" &&
            check "$model in $n parts: the same bits" "$TOOLS/parts" whole.plan parts.plan "$n" 3
    done
}

if [ "${1:-}" = whole ]; then
    for model in "$SRC"/tests/golden/*/config.json; do
        model=$(basename "$(dirname "$model")")
        layers=$("$DOPPLERC" "$SRC/tests/golden/$model" -o whole.plan --quiet --ctx 56 --chunks 4,16 &&
            "$EXEC" whole.plan --info --json | grep -o '"layers": [0-9]*,' | grep -o '[0-9]*' | head -1)
        # Fewer where layers share caches.
        "$DOPPLERC" "$SRC/tests/golden/$model" -o most.plan --quiet --ctx 56 --chunks 4,16 --parts "$layers" 2>why ||
            layers=$(($(sed -n 's/.*the model can be cut at \([0-9]*\) places.*/\1/p' why) + 1))
        parts "$model" "2 $([ "$layers" -gt 2 ] && echo "$layers")" --ctx 56 --chunks 4,16 --sequences 3
    done
    parts qwen3_5 2 --ctx 56 --chunks 4,16 --kv f32 --sequences 3 # states that steps replace
    finish
    exit
fi
parts llama 2 --ctx 56 --chunks 4,16 --kv f32 --sequences 5 --ctx-total 104 --embed # states in pages
# States that steps replace are in golden.ranks.

# Files: one of all parts, the same whenever it is made; one of each part, with and without its weights.
llama=$SRC/tests/golden/llama
small="--ctx 56 --chunks 4,16 --kv f32 --sequences 5 --ctx-total 104 --embed"
make() { # FILE OPTION...
    # shellcheck disable=SC2086
    check "compiles $*" "$DOPPLERC" "$llama" -o "$1" --quiet $small "${@:2}"
}
make whole.plan
make one.plan --parts 2
make again.plan --parts 2 -j 1
check "the same bytes" cmp one.plan again.plan
make own --parts 1,1 --split
check "files of their own" "$TOOLS/parts" whole.plan own 2 2
make outside --parts 1,1 --split --weights external
check "with weights beside them" "$TOOLS/parts" whole.plan outside 2 2
check_fails "a plan in parts, alone" 2 "a plan in 2 parts, each for a process and a device of its own: run it as mpirun -n 2" \
    "$EXEC" one.plan --tokens "1 2" -n 1
check_fails "one part, alone" 2 "a plan in 2 parts" "$EXEC" own.part1 --tokens "1 2" -n 1
check_fails "another number of ranks" 1 "a plan in 2 parts, and there are 3 ranks: run it with mpirun -n 2" \
    "$TOOLS/parts" whole.plan one.plan 3
check_fails "a whole plan on ranks" 1 'a plan of one part, and there are 2 ranks: make one in parts with `dop_compile_options.parts` 2' \
    "$TOOLS/parts" whole.plan whole.plan 2

# What is said of them, and --check.
info() { # PLAN COUNT: so many parts of one set
    "$EXEC" --info "$1" >info.txt && [ "$(grep -c '^part        [01] of 2: layers [0-9]' info.txt)" -eq "$2" ] &&
        [ "$(grep -o 'set [0-9a-f]*' info.txt | sort -u | wc -l)" -eq 1 ]
}
check "--info of all parts" info one.plan 2
check "--info of files of their own" info own 2
check "--info of one of them" info own.part1 1
mkdir host
cp own.part1 host
check "--info where the other part is not" info host/own 1
check "it says so" grep -q '^part        0 of 2: its file is not here$' info.txt
"$EXEC" --info --json host/own >info.json
check "as JSON" [ "$(grep -c '"absent": true' info.json)" -eq 1 ]
check "what crosses" grep -q '^receives    x1: 256 bytes a token$' info.txt
"$EXEC" --disasm one.plan >listing
check "--disasm" [ "$(grep -c '^part [01] of 2$' listing)" -eq 2 ]
"$EXEC" --info --json one.plan >info.json
check "--info --json" [ "$(grep -c '"endLayer": [12],' info.json)" -eq 2 ]
make report.plan --parts 2 --report=report.json
check "the report" [ "$(grep -c '"bytes_sent": \(256\|0\)$' report.json)" -eq 2 ]
check "the report: caches of 104 positions" [ "$(grep -c '"caches": 26624,' report.json)" -eq 2 ]
check "--check" "$EXEC" own.part1 --check --quiet
make report.plan --parts 2 --report=report.html
check "the page: parts" [ "$(grep -c '^<tr><td>[01]</td><td>[01] to [01]</td>' report.html)" -eq 2 ]
check "the page: what crosses" grep -q '^<tr><td>decode1</td><td>part 0</td><td>part 1</td><td><code>x1</code></td><td class=n>256</td>' \
    report.html
check "the page: where a layer is" grep -q '^<section><h3>Layer 1: .*, in part 1 of 2' report.html
explain() { # OP TEXT
    # shellcheck disable=SC2086
    "$DOPPLERC" "$llama" --quiet -o report.plan $small --parts 2 --explain "$1" >explained && grep -q "$2" explained
}
check "--explain: where, and what it sends" explain L0/ffn_down '^decode1 .*, in part 0 of 2, which sends x1 (256 bytes a row) to part 1$'
check "--explain: a pair across a cut" explain ffn_down+qkv '^decode1 L./ffn_down .*; crosses from part 0 to part 1$'

# A target for each part: what crosses is the same, whatever each fuses.
printf '%s\n' "base: lavapipe" "name: plain" "caps: [f16_storage]" >plain.yaml
check "two targets: compiles" "$DOPPLERC" "$llama" -o two.plan --quiet --ctx 56 --chunks 4,16 --target lavapipe,plain.yaml --parts 2
check "one target: compiles" "$DOPPLERC" "$llama" -o one-target.plan --quiet --ctx 56 --chunks 4,16
check "two targets: nearly the same" "$TOOLS/parts" one-target.plan two.plan 2 2 near
check_fails "a target too few" 2 "--target names 2 targets for 3 parts" \
    "$DOPPLERC" "$SRC/tests/golden/gemma2" -o no.plan --quiet --target lavapipe,plain.yaml --parts 3
head -c 100000 one.plan >cut.plan
damage() { # FILE BYTE
    cp one.plan "$1" && printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
damage directory.plan 44
check_fails "a damaged directory" 1 "the digest of its directory does not match" "$TOOLS/parts" whole.plan directory.plan 2
damage second.plan $(($(stat -c %s one.plan) - 3000))
check_fails "damaged weights of the second part" 1 "the digest of section WEIGHTS does not match" "$TOOLS/parts" whole.plan second.plan 2
cp own.part0 own2.part1
cp own.part0 own2.part0
check_fails "the same part twice" 1 "part 0 of 2, and this is rank 1, which wants part 1" "$TOOLS/parts" whole.plan own2 2
check_fails "a plan that is cut short" 1 "the plan is truncated" "$TOOLS/parts" whole.plan cut.plan 2

# How fast parts would be (unit.test_simulate has the numbers).
printf '%s\n' "link: {latency_us: 7, bandwidth: 1e6}" "device: {bandwidth: 1e9, flops: 1e12, memory: 300e3}" >link.yaml
sed 's/^link: \(.*\)/link: [\1, \1]/' link.yaml >links.yaml
# shellcheck disable=SC2086
predict() { "$DOPPLERC" "$llama" --quiet $small --parts 2 --simulate link.yaml "$@"; }
predict >predicted.txt
check "a prediction says that it is one" grep -q '^prediction, nothing of it was run: .* in 2 parts$' predicted.txt
check "a device without room" [ "$(grep -c '^one device no fit' predicted.txt)" -eq 1 ]
predict --json >predicted.json
check "as JSON" [ "$(grep -c '"decode_tps": [1-9]' predicted.json)" -eq 2 ]

# Where to cut.
wrong() { # WHAT STATUS TEXT OPTION...
    # shellcheck disable=SC2086
    check_fails "$1" "$2" "$3" "$DOPPLERC" "$llama" -o no.plan --quiet $small "${@:4}"
}
wrong "more parts than layers" 1 "--parts 9: the model has 2 layers" --parts 9
wrong "layers that are not there" 2 "--parts 1,2: these are 3 layers, and the model has 2" --parts 1,2
wrong "no number" 2 "--parts two: expected a number of parts" --parts two
wrong "one part" 2 "--parts 1: from 2 to 64 parts" --parts 1
wrong "auto without memory" 2 "--parts auto needs the memory of two devices or more" --parts auto
wrong "auto with more than enough" 2 "the first device holds the whole model" --parts auto --part-memory 1GiB,1GiB
wrong "auto with too little" 1 "does not hold them: give more parts" --parts auto --part-memory 10KiB,10KiB
wrong "memory without a unit" 2 "--part-memory 24,24: expected the memory of each device, as 24GiB,16GiB" --parts auto --part-memory 24,24
wrong "a prediction of one part" 2 "--simulate is about a plan in parts: give --parts" --simulate link.yaml
wrong "a prediction as JSON, and none" 2 "--json is the form of a prediction: give --simulate" --json
wrong "another number of links" 1 "links.yaml: error: 2 links for 2 parts: one for all, or one for each of the 1 cuts" \
    --parts 2 --simulate links.yaml
wrong "memory without parts" 2 "--part-memory is about a plan in parts: give --parts" --part-memory 1GiB
finish
