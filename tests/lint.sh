# What compilers find without running anything: clang-tidy under the project's .clang-tidy (which says what is left out
# and why), and gcc's -fanalyzer, over every file of the programs and the library.
. "$(dirname "$0")/lib.sh"
if ! command -v clang-tidy >/dev/null || ! command -v gcc >/dev/null; then
    skip "lint" "no clang-tidy or no gcc"
    finish
    exit
fi
# listed COMPILER: the files and how they are compiled
listed() {
    cmake -S "$SRC" -B "$1" -G Ninja -DCMAKE_C_COMPILER="$1" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DBUILD_TESTING=OFF
}
check "clang's commands" listed clang
check "gcc's commands" listed gcc
sed -n 's/^ *"file": "\(.*\)",*$/\1/p' clang/compile_commands.json | grep -v "^$WORK/" | sort -u >files
[ "$(wc -l <files)" -ge 250 ] && pass "files are found" || fail "files are found" "$(wc -l <files)"
tidy() {
    nice xargs -P "$(nproc)" -n 4 clang-tidy -p clang --quiet <files >tidy.log 2>tidy.err
    local status=$?
    grep -E 'warning:|error:' tidy.log
    [ $status -eq 0 ]
}
check "clang-tidy" tidy
# What -fanalyzer of gcc 12 says wrongly, and why:
#   malloc-leak                 an object that is given on through a structure or a list is taken for lost; the sanitizers
#                               and the injected failures (errors.memory, errors.memory_run) look for real ones
#   use-of-uninitialized-value  it does not see that dop_fail() never gives DOP_OK
#   null-dereference, null-argument, and possible-...  the same, of an allocation whose failure was reported so
analyze() {
    sed -n 's/^ *"command": "\(.*\)",*$/\1/p' gcc/compile_commands.json | grep -v "$WORK/gcc/assets" |
        sed 's/\\"/"/g; s/\\\\/\\/g; s/ -o [^ ]* -c / -c /' >commands
    nice xargs -P "$(nproc)" -d '\n' -I {} sh -c '{} -o /dev/null -O1 -fanalyzer -Wno-analyzer-malloc-leak \
        -Wno-analyzer-use-of-uninitialized-value -Wno-analyzer-null-dereference \
        -Wno-analyzer-possible-null-dereference -Wno-analyzer-possible-null-argument -Wno-analyzer-null-argument' <commands >analyze.log 2>&1
    local status=$?
    grep -E 'warning:|error:' analyze.log
    [ $status -eq 0 ]
}
check "gcc -fanalyzer" analyze
finish
