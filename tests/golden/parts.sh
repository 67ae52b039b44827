# Plans in parts against plans of the whole model: the same bits (tests/tools/parts.c runs all parts in one process).  Kernels are
# those of the other tests of these models.  The argument `whole` is the long form: every model, in as many parts as it has layers too.
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
        parts "$model" "2 $layers" --ctx 56 --chunks 4,16 --sequences 3
    done
    finish
    exit
fi
parts llama 2 --ctx 56 --chunks 4,16 --kv f32 --sequences 5 --ctx-total 104 --embed # states in pages
parts gemma2 2                                                                      # two values at a cut
parts qwen3_5 2 --ctx 56 --chunks 4,16 --kv f32 --sequences 3                           # states that steps replace

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
check_fails "a whole plan on ranks" 1 "a plan of one part, and there are 2 ranks: make one in parts with dopplerc --parts 2" \
    "$TOOLS/parts" whole.plan whole.plan 2
cp own.part0 mixed.part0
cp outside.part1 mixed.part1 2>/dev/null
head -c 100000 one.plan >cut.plan
check_fails "a plan that is cut short" 1 "the plan is truncated" "$TOOLS/parts" whole.plan cut.plan 2

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
wrong "memory without parts" 2 "--part-memory is about a plan in parts: give --parts" --part-memory 1GiB
finish
