#!/usr/bin/env bash
# Installs what is needed (Debian 12 and 13, Ubuntu 24.04), builds, and runs every test.  The last line counts them all; the exit status is 0
# only when nothing failed.  Tests run on lavapipe, so that a machine with a GPU gives the same answers as one without.
#
#   format       clang-format 14 has nothing to change
#   optimized    gcc compiles the product with -O3 without a warning
#   release      gcc build, every test that the other phases do not show more of (with --quick and --long every one)
#   sanitize     clang build with AddressSanitizer and UndefinedBehaviorSanitizer, every test that adds something there,
#                and a short run of every fuzzer
#   validation   the release build's tests that use a device, under the Vulkan validation layers
# Which tests run in which phase is a matter of labels (tests/CMakeLists.txt).
set -u

usage() {
    cat <<'USAGE'
usage: tests/run.sh [options]
  --quick           format and release only
  --systems         only the builds and tests in other systems (tests/systems): root, a mirror of Debian, hours
  --werror          warnings of the compilers are errors
  --long            also the tests that take minutes each and add little
  --filter REGEX    only tests whose ctest name matches (names: ctest --test-dir build-test/release -N)
  --gpu             use the machine's Vulkan driver instead of lavapipe
  --no-install      do not install packages
  --limit SECONDS   end by then: what has not run has failed
  --build-dir DIR   where to build (default: build-test)
  -j N              parallel jobs (default: number of processors)
USAGE
}

quick=0 long=0 systems=0 werror=OFF filter=. gpu=0 install=1 limit=0 build=build-test jobs=$(nproc)
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --long) long=1 ;;
    --gpu) gpu=1 ;;
    --systems) systems=1 ;;
    --werror) werror=ON ;;
    --no-install) install=0 ;;
    --filter | --limit | --build-dir | -j)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        case $1 in
        --filter) filter=$2 ;;
        --limit) limit=$2 ;;
        --build-dir) build=$2 ;;
        -j) jobs=$2 ;;
        esac
        shift
        ;;
    -h | --help) usage; exit 0 ;;
    *) echo "tests/run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

cd "$(dirname "$0")/.." || exit 1
root=$PWD
export LC_ALL=C.UTF-8
mkdir -p "$build" || exit 1
build=$(cd "$build" && pwd)

# ---- installing -----------------------------------------------------------------------------------------------------
. tests/lib_packages.sh
if [ "$install" -eq 1 ]; then
    # shellcheck disable=SC2046 # a word or none
    install_packages build driver test $([ "$long" -eq 1 ] && echo long) || exit 1
fi
if [ "$gpu" -eq 0 ]; then
    lavapipe=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' | head -n 1)
    if [ -z "$lavapipe" ]; then
        echo "error: lavapipe is not installed (mesa-vulkan-drivers); --gpu uses the machine's own driver" >&2
        exit 1
    fi
    export VK_ICD_FILENAMES=$lavapipe VK_DRIVER_FILES=$lavapipe
    export MESA_SHADER_CACHE_DIR=$build # machine code of the kernels: minutes for the first phase, nothing after it
    # Most of that time is the optimizer's, and most kernels here run once or twice.  Tests whose kernels run long ask for
    # it (tests/CMakeLists.txt), so that both kinds of code are tried.
    export GALLIVM_PERF=nopt
fi

# A bare chroot may lack /proc, which the sanitizers and the installed compiler (it looks for its templates beside
# itself) read.
if [ ! -e /proc/self/maps ] && [ "$(id -u)" -eq 0 ]; then
    mount -t proc proc /proc 2>/dev/null
fi
if [ ! -e /proc/self/maps ]; then
    echo "error: /proc is not mounted" >&2
    exit 1
fi

# ---- counting -------------------------------------------------------------------------------------------------------
unwanted='^(long|device|sanitized)$'
[ "$quick" -eq 0 ] || unwanted='^long$'
[ "$long" -eq 0 ] || unwanted='^systems$'
passed=0 failed=0 skipped=0 table='' since=$SECONDS

count() { # PHASE PASSED FAILED SKIPPED: at its end
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    table+=$(printf '%-12s %7d %7d %7d %8d' "$@" $((SECONDS - since)))$'\n'
    echo "$1: $2 passed, $3 failed, $4 skipped in $((SECONDS - since)) s"
    since=$SECONDS
}

heading() {
    printf '\n== %s\n' "$*"
}

# ---- phases ---------------------------------------------------------------------------------------------------------
# build_tree NAME CC CMAKE_OPTION...: configures and builds $build/NAME.
build_tree() {
    local tree=$build/$1 log=$build/$1.log
    shift
    if cmake -S "$root" -B "$tree" -G Ninja -DCMAKE_C_COMPILER="$1" -DDOPPLER_SHADERS="$build/shaders" \
        -DDOPPLER_WERROR=$werror "${@:2}" >"$log" 2>&1 &&
        cmake --build "$tree" -j "$jobs" >>"$log" 2>&1; then
        echo "built $tree"
        return 0
    fi
    grep -nE 'error|warning|FAILED' "$log" | head -n 40
    tail -n 20 "$log"
    echo "error: the build failed; its log is $log"
    return 1
}

# The software driver's compiler and shaderc allocate small objects by the million: with mimalloc they take a tenth to a
# quarter less time than with glibc.  Sanitizers have an allocator of their own, and the validation phase keeps glibc's.
allocator=
for file in /usr/lib/*/libmimalloc.so.[23]*; do
    [ ! -e "$file" ] || allocator=$file
done

# run_ctest PHASE TREE CTEST_OPTION...: runs the tests of $build/TREE and leaves the counts in $counts.
run_ctest() {
    local phase=$1 tree=$build/$2 junit=$build/$1.xml stop=() preload=() left=$((limit - SECONDS))
    shift 2
    [ "$phase$gpu" != release0 ] || [ -z "$allocator" ] || preload=(env "LD_PRELOAD=$allocator" MIMALLOC_ALLOW_DECOMMIT=0)
    rm -f "$junit"
    if [ "$limit" -gt 0 ] && [ "$left" -le 0 ]; then
        echo "error: no time is left"
        counts="0 1 0"
        return
    fi
    [ "$limit" -eq 0 ] || stop=(--stop-time "$(date -d "now + $left seconds" +%T)")
    "${preload[@]}" ctest --test-dir "$tree" -j $((2 * jobs + 2)) -R "$filter" "$@" "${stop[@]}" --output-on-failure \
        --output-junit "$junit" --test-output-size-passed 100000000 --test-output-size-failed 100000000 2>&1 |
        grep --line-buffered -v '^Internal ctest'
    if [ ! -s "$junit" ]; then
        echo "error: ctest ended before its report was written"
        counts="0 1 0"
        return
    fi
    counts=$(awk -f tests/count.awk "$junit")
    if [ "$counts" = "0 0 0" ] && [ "$filter" = . ]; then
        echo "error: no test ran"
        counts="0 1 0"
    elif [ "$limit" -gt 0 ] && [ "$SECONDS" -ge "$limit" ]; then
        set -- $counts
        echo "error: out of time: not every test has run"
        counts="$1 $(($2 + 1)) $3"
    fi
}

phase_format() {
    heading "format"
    if ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
        echo "skipped: clang-format 14 is needed, whose rules differ from those of other versions ($(clang-format --version 2>&1))"
        count format 0 0 1
        return
    fi
    if find include base plan ir passes kernels text media frontend runtime compiler serve tools tests -name '*.[ch]' -print0 |
        xargs -0 -n 60 -P "$jobs" clang-format --dry-run -Werror >"$build/format.log" 2>&1; then
        count format 1 0 0
    else
        grep -o '^[^ ]*: error' "$build/format.log" | cut -d: -f1 | sort | uniq -c
        echo "error: clang-format 14 would change these files (clang-format -i FILE)"
        count format 0 1 0
    fi
}

# Seventy programs link the static shader compiler, in two trees: lld takes a quarter of the time of bfd, gold a half.
linker=()
for name in lld gold; do
    if command -v ld.$name >/dev/null; then
        linker=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=$name)
        break
    fi
done

# Warnings depend on how far the optimizer looks: distributions build with -O2 and _FORTIFY_SOURCE, CMake's Release with -O3.  The second
# compiles the product and links nothing.
phase_optimized() {
    heading "optimized: gcc -O3 compiles the product"
    local tree=$build/optimized log=$build/optimized.log
    if cmake -S "$root" -B "$tree" -G Ninja -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DDOPPLER_WERROR=ON >"$log" 2>&1 && ninja -C "$tree" -j "$jobs" \
        $(ninja -C "$tree" -t targets all | sed -nE 's/^([^ ]*\.o): C_COMPILER.*/\1/p') >>"$log" 2>&1; then
        count optimized 1 0 0
    else
        grep -nE 'error|warning|FAILED' "$log" | head -n 40
        echo "error: the product does not compile without a warning; the log is $log"
        count optimized 0 1 0
    fi
}

# Debugging symbols are left out, since no test reads them.
phase_release() {
    heading "release: gcc, every test on $([ "$gpu" -eq 0 ] && echo lavapipe || echo "the GPU")"
    local options=("-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG -D_FORTIFY_SOURCE=3") select=(-LE "$unwanted")
    [ "$systems" -eq 0 ] || select=(-L '^systems$')
    if build_tree release gcc "${options[@]}" "${linker[@]}"; then
        run_ctest release release "${select[@]}"
        count release $counts
    else
        count release 0 1 0
    fi
}

# Every process writes its reports to files of its own, wherever a test sends its output; status 86 is not one that a
# must-fail test expects.  clang, because gcc 12 cannot send UndefinedBehaviorSanitizer's reports to a file, and because
# a second compiler with its own warnings is worth having.
phase_sanitize() {
    heading "sanitize: clang, AddressSanitizer and UndefinedBehaviorSanitizer"
    if ! build_tree sanitize clang -DDOPPLER_SANITIZE=ON "${linker[@]}"; then
        count sanitize 0 1 0
        return
    fi
    local reports=$build/reports mistakes=0 unloaded=0 what
    rm -rf "$reports"
    mkdir -p "$reports"
    # mpirun kills the process groups of its ranks.  A symbolizer in a rank's group can die before the rank, which then
    # reports that: in a session of its own it lives until its rank closes the pipe.
    local own=$build/symbolizer/llvm-symbolizer
    mkdir -p "${own%/*}"
    printf '#!/bin/sh\nexec setsid "%s" "$@"\n' "$(command -v llvm-symbolizer)" >"$own"
    chmod +x "$own"
    local common="log_path=$reports/report:exitcode=86:external_symbolizer_path=$own"
    # Its memmem looks at the whole text in every call, which makes a search for all places quadratic.
    export ASAN_OPTIONS="$common:detect_stack_use_after_return=1:strict_string_checks=1:intercept_memmem=0"
    export UBSAN_OPTIONS="$common:print_stacktrace=1"
    export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
    # A leak of ours is reported although drivers stay loaded; what a driver keeps in its globals is not (and would be,
    # were it unloaded).
    local tools=$build/sanitize/tests/tools
    reported() { # ARGUMENT...: `mistake ARGUMENT...` was reported
        "$tools/mistake" "$@" >/dev/null 2>&1
        [ $? -eq 86 ] && compgen -G "$reports/report.*" >/dev/null
    }
    for what in leak overflow undefined; do
        reported $what && mistakes=$((mistakes + 1))
        rm -f "$reports"/report.*
    done
    reported lost "$tools/lost_module.so" && mistakes=$((mistakes + 1))
    rm -f "$reports"/report.*
    VK_ICD_FILENAMES=$tools/lost_module.json VK_DRIVER_FILES=$tools/lost_module.json \
        "$tools/mistake" unloaded "$tools/lost_module.so" && ! compgen -G "$reports/report.*" >/dev/null && unloaded=1
    run_ctest sanitize sanitize -LE '^(again|long)$'
    set -- $counts
    if [ "$mistakes" -ne 4 ]; then
        echo "error: a deliberate leak, overflow or undefined shift was not reported: this phase proves nothing"
        set -- "$1" $(($2 + 1)) "$3"
    fi
    if [ "$unloaded" -ne 1 ]; then
        echo "error: what a Vulkan driver keeps in its globals is reported as a leak of ours"
        set -- "$1" $(($2 + 1)) "$3"
    fi
    # The leak checker looks at a stopped process from outside; a thread that was ending just then can make it fall
    # itself ("Tracer caught signal").  That says nothing about the process, and its test is run once more; more than a
    # few would hide leaks.
    local fallen
    fallen=$(find "$reports" -name 'report.*' -exec awk 'FNR == 1 && /^Tracer caught signal/ { print FILENAME }' {} + | wc -l)
    if [ "$fallen" -gt 0 ] && [ "$fallen" -le 3 ]; then
        echo "note: the leak checker itself fell in $fallen processes"
        grep -l '^Tracer caught signal' "$reports"/report.* | xargs rm -f
        if [ "$2" -gt 0 ] && [ "$mistakes" -eq 4 ] && [ "$unloaded" -eq 1 ] &&
            [ "$(wc -l <"$build/sanitize/Testing/Temporary/LastTestsFailed.log")" -le "$fallen" ]; then
            local before=$1 skipped=$3
            run_ctest sanitize sanitize --rerun-failed
            set -- $counts
            set -- $((before + $1)) "$2" "$skipped"
        fi
    fi
    local n
    n=$(find "$reports" -name 'report.*' | wc -l)
    if [ "$n" -gt 0 ]; then
        find "$reports" -name 'report.*' | sort | head -n 3 | xargs head -n 60
        echo "error: $n processes reported something; all reports are in $reports"
        [ "$2" -gt 0 ] || set -- "$1" "$n" "$3"
    fi
    count sanitize "$@"
    unset ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
}

# The layers write to a named pipe, which collects from every process whatever a test does with its output.
phase_validation() {
    heading "validation: the tests that use a device, under the Vulkan validation layers"
    if [ ! -x "$build/release/tests/tools/mistake" ]; then
        echo "error: needs the release build"
        count validation 0 1 0
        return
    fi
    local pipe=$build/validation.pipe log=$build/validation.log reader
    rm -f "$pipe" "$log"
    mkfifo "$pipe"
    exec 9<>"$pipe"
    cat <&9 >"$log" &
    reader=$!
    cat >"$build/vk_layer_settings.txt" <<SETTINGS
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.log_filename = $pipe
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
SETTINGS
    export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_SETTINGS_PATH=$build/vk_layer_settings.txt
    "$build/release/tests/tools/mistake" vulkan >/dev/null 2>&1
    sleep 1
    local seen=0
    grep -q 'VUID-VkBufferCreateInfo-size-00912' "$log" && seen=1
    local before
    before=$(wc -l <"$log")
    run_ctest validation release -L device
    unset VK_INSTANCE_LAYERS VK_LAYER_SETTINGS_PATH
    sleep 1
    kill "$reader"
    exec 9>&-
    rm -f "$pipe"
    set -- $counts
    if [ "$seen" -eq 0 ]; then
        echo "error: a deliberate mistake was not reported: the validation layers are not active"
        set -- "$1" $(($2 + 1)) "$3"
    fi
    local n
    n=$(tail -n "+$((before + 1))" "$log" | grep -cE '^ *Validation (Error|Warning|Performance)|VUID-')
    if [ "$n" -gt 0 ]; then
        tail -n "+$((before + 1))" "$log" | cut -c1-600 | head -n 20
        echo "error: the validation layers had something to say; all of it is in $log"
        set -- "$1" $(($2 + 1)) "$3"
    fi
    count validation "$@"
}

if [ "$systems" -eq 1 ]; then
    quick=1
else
    phase_format
fi
phase_release
if [ "$quick" -eq 0 ]; then
    phase_optimized
    phase_sanitize
    phase_validation
fi

printf '\n%-12s %7s %7s %7s %8s\n%s' phase passed failed skipped seconds "$table"
times >"$build/times" # of this shell, then of all programs; user and system
echo "$SECONDS s with $jobs jobs; processor time $(tail -n 1 "$build/times" | tr ' ' '+')"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
