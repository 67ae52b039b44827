# The same inputs give the same bytes: from any folder, under any name, with any number of threads.  The argument `whole` is the long form:
# more models.
. "$(dirname "$0")/lib.sh"
whole=${1:-}

for model in tests/golden/gemma3 ${whole:+tests/golden/llama examples/shakespeare-gemma3}; do
    name=$(basename "$model")
    rm -rf a b
    mkdir -p a "b/a long folder name"
    cp -r "$SRC/$model" "a/$name"
    cp -r "$SRC/$model" "b/a long folder name/copy"
    touch -d '2001-02-03' b/*/copy/*
    check "$name: compiles" "$DOPPLERC" "a/$name" -o a/plan --quiet -j 1
    check "$name: compiles elsewhere" \
        sh -c 'cd "b/a long folder name" && HOME=/nonexistent TZ=Asia/Tokyo LC_ALL=C "$0" copy -o plan --quiet -j 4' \
        "$DOPPLERC"
    check "$name: same plan" cmp a/plan "b/a long folder name/plan"
    check "$name: same plan by the compiler of the tests" sh -c '"$1" "$2" -o "$3/t" --quiet && cmp "$3/t" "$3/plan"' \
        sh "$TOOLS/dopplerc" "$SRC/$model" "$WORK/a"
    # Kernels are not compiled again for what else a compilation writes.
    check "$name: same weights apart" sh -c '"$1" "$2" -o "$3/q" --quiet -j 3 --weights external &&
        "$1" "$3/$4" -o "$3/../b/q" --quiet -j 1 --weights external && cmp "$3/q" "$3/../b/q" &&
        cmp "$3/q.weights" "$3/../b/q.weights"' sh "$TOOLS/dopplerc" "$SRC/$model" "$WORK/a" "$name"
    check "$name: same report" sh -c '"$1" "$2" -o "$3/p" --quiet -j 3 --report="$3/r1.txt" &&
        "$1" "$3/$4" -o "$3/p" --quiet -j 1 --report="$3/r2.txt" && cmp "$3/r1.txt" "$3/r2.txt"' \
        sh "$TOOLS/dopplerc" "$SRC/$model" "$WORK/a" "$name"
    if grep -qaF -e "$WORK" -e "$SRC" a/plan; then
        fail "$name: no paths in the plan"
    else
        pass "$name: no paths in the plan"
    fi
done
finish
