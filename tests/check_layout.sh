# Facts about the tree that decay unnoticed: top level, which room uses which, file lengths, hidden inputs, tabs, documents.
. "$(dirname "$0")/lib.sh"
cd "$SRC" || exit 2
shopt -s lastpipe # so that `... | none` counts in this shell

# none NAME: passes when stdin is empty, else shows it.
none() {
    local found
    found=$(cat)
    if [ -z "$found" ]; then
        pass "$1"
    else
        fail "$1"
        printf '%s\n' "$found" | head -n 20 | sed 's/^/    | /'
    fi
}

# Every file of the source tree with one of the given endings; build trees and hidden folders are not part of it.
sources() {
    local ending
    for ending in "$@"; do
        find base compiler runtime ir kernels passes tests examples -name "*.$ending" -type f
    done
}

find . -mindepth 1 -maxdepth 1 ! -name '.*' ! -name 'build' ! -name 'build-*' -printf '%f\n' |
    grep -vxE 'CMakeLists\.txt|base|compiler|runtime|ir|kernels|passes|tests|examples|docs|README\.md|LICENSE' |
    none "nothing else at the top level"

# ---- rooms and circles (quoted includes are written from the root) -----------------------------------------------------
# A folder, and what its files may use beside itself: folders above it here, and what these may use (layout.awk).
cat >"$WORK/rooms" <<'end'
include/doppler
include/doppler include/doppler
base                    include/doppler
base/encoding           base
base/json               base/encoding
base/yaml               base/json
base/format             base/yaml
base/storage            base
base/program            base/json
ir                      base/storage
passes                  ir
kernels/nest            base
kernels                 ir kernels/nest
include/doppler include/doppler
plan            base/json base/storage include/doppler
runtime/device          plan
runtime/sample          plan
runtime/cache           base
runtime/model           runtime/device runtime/sample
runtime/parts/lead      runtime/model runtime/cache
base/format         base/format
runtime/step            runtime/parts/lead base/format
text/jinja      base/json
text            text/jinja include/doppler base/program
text/grammar    text
text/schema text/grammar
media           base
runtime/library         base/format runtime/step media text/schema
runtime/parts           runtime/library
text/import    base/format base/json text
frontend/families
frontend/facts          ir base/yaml text/import frontend/families
frontend/vision  frontend/facts media
frontend/gguf    frontend/facts frontend/vision media
frontend/hf      frontend/facts text/import frontend/vision media
frontend/rdrr    frontend/facts
frontend/diffusion frontend/hf
frontend         frontend/diffusion frontend/gguf frontend/rdrr base/format
frontend/build          frontend/facts
compiler/target         ir base/yaml runtime/device
compiler/pack           frontend/build kernels
compiler/schedule       compiler/pack compiler/target frontend passes kernels
compiler/write          compiler/schedule
compiler/report         compiler/write base/program
compiler/parts          compiler/report
tools/bench   runtime/step base/program public
tools/profile tools/bench public
tools/check   runtime/step ir base/program public
tools/imatrix tools/check public
serve/engine    runtime/library public
serve/api       serve/engine base/program public
serve/protocols serve/api public
serve           serve/protocols public
runtime/parts/mpi       runtime/parts
tools/doppler-exec/common  runtime/library text/import include/doppler public
tools/doppler-exec/client  include/doppler =runtime/sample =text =tools/doppler-exec/common base/program base/json public
media/audio     media
tools/fetch           base
tools/doppler-exec/on_demand   tools/doppler-exec/common runtime/parts/lead include/doppler tools/fetch public
tools/doppler-exec         tools/doppler-exec/on_demand tools/doppler-exec/client tools/doppler-exec/common serve runtime/parts/mpi public
tools/doppler-exec         tools/profile tools/check tools/imatrix
compiler/library        compiler/parts include/doppler runtime/model
tools/dopplerc        compiler/library tools/bench
hook dop_replay_observer
hook dop_job_task
hook dop_task_writer
hook dop_models_how
end
layout() { # ROOMS FOLDER...: what layout.awk says about the files of the folders
    local rooms=$1
    shift
    # base/os/windows is another form of functions that files beside it have: both are never built together.
    find "$@" -path base/os/windows -prune -o \( -name '*.def' -o -name '*.h' \) -print | sort >"$WORK/files"
    find "$@" -path base/os/windows -prune -o -name '*.c' -print | sort >>"$WORK/files"
    if [ -d tests ]; then find tests -name '*.c' | sort >>"$WORK/files"; fi
    xargs awk -f "$SRC/tests/layout.awk" "$rooms" <"$WORK/files" | sort
}
layout "$WORK/rooms" base ir passes kernels compiler runtime >"$WORK/layout"
grep '^up' "$WORK/layout" | none "no file uses what its room may not use"
grep '^circle' "$WORK/layout" | none "no files in a circle"
grep -E '^(none|row)' "$WORK/layout" | none "every file is in a room, and rooms use those before them"

# What that finds, in a tree of three rooms.
mkdir -p "$WORK/tree/low" "$WORK/tree/high" "$WORK/tree/other"
cat >"$WORK/tree/rooms" <<'end'
low
high   low
end
cat >"$WORK/tree/low/table.h" <<'end'
typedef struct dop_table {
    void (*first)(void);
    void (*second)(int n);
} dop_table;
void dop_c(void);
end
printf 'void\ndop_a(void)\n{\n    dop_b(); /* dop_d */\n}\n' >"$WORK/tree/low/a.c"
printf 'void\ndop_b(void)\n{\n    dop_c();\n}\n' >"$WORK/tree/low/b.c"
printf '#include "low/table.h"\n\nvoid\ndop_c(const dop_table *t)\n{\n    dop_a();\n    dop_d();\n    t->first();\n}\n' >"$WORK/tree/low/c.c"
printf 'void\ndop_d(void)\n{\n    puts("dop_a"); /* dop_a,\n    dop_b */\n}\n' >"$WORK/tree/low/d.c"
printf '#include "low/table.h"\n\nstatic const dop_table table = {one, two};\n\nvoid\ndop_e(void)\n{\n    dop_f();\n}\n' >"$WORK/tree/high/e.c"
printf '#include "low/table.h"\n\nvoid\ndop_f(void)\n{\n    dop_d();\n}\n' >"$WORK/tree/high/f.c"
printf 'void\ndop_g(void)\n{\n    dop_e();\n}\n' >"$WORK/tree/low/g.c"
printf '#include "high/e.h"\n' >"$WORK/tree/low/h.h"
printf 'static int n;\n' >"$WORK/tree/other/i.c"
cat >"$WORK/tree/want" <<'end'
circle low/a.c low/b.c low/c.c
none other/i.c
up low/c.c: high/e.c (dop_table.first)
up low/g.c: high/e.c (dop_e())
up low/h.h: high/e.h (included)
end
(cd "$WORK/tree" && layout rooms low high other) | diff "$WORK/tree/want" - |
    none "arcs by include, call and table, and circles, are found"

for folder in $(find base compiler runtime -type d); do
    n=$(find "$folder" -maxdepth 1 -type f | wc -l)
    [ "$n" -le 25 ] || echo "$folder: $n files"
done | none "no folder of base/, compiler/ and runtime/ with more than 25 files"
[ "$(find compiler runtime -mindepth 1 -maxdepth 1 -type f | wc -l)" -le 14 ] &&
    pass "files of compiler/ and runtime/ are in rooms" || fail "files of compiler/ and runtime/ are in rooms"
# A schedule to run is looked up in the table of used ones (dop_used_of); what remains loads (pipelines too), checks, clears and lists all of them.
n=$(grep -rnE 'for \(.*n_schedules' runtime --include='*.c' --include='*.h' | wc -l)
[ "$n" -le 13 ] && pass "few loops over a plan's schedules" || fail "few loops over a plan's schedules" "$n, expected at most 13"
find text base -name '*.[ch]' -print0 | xargs -0 -r grep -lE 'vulkan' |
    none "text/ and base/ know no device"
find base ir passes kernels -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<(vulkan|jansson)' |
    grep -vE '^base/(json|read)/' | none "devices and JSON stay out of base/, ir/, passes/ and kernels/"
find base compiler runtime ir passes kernels -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<mpi' |
    grep -v '^runtime/parts/mpi/' | none "MPI stays in its module"

# ---- files ----------------------------------------------------------------------------------------------------------
sources c h def glsl comp sh | xargs -r wc -l | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines" }' |
    none "no file over 800 lines"
sources c h def glsl comp sh yaml html css js | xargs -r grep -nP '\t| +$|\r' | cut -c1-120 |
    none "no tabs, trailing blanks or carriage returns"
find compiler runtime -path '*/assets/*' -type f ! -name '*.html' ! -name '*.css' ! -name '*.js' ! -name '*.cmake' |
    none "assets are pages and what makes them C"
# clang-format keeps code within 120 columns; this is for what it does not see.  Tables (.def) may be wider.
sources c h glsl comp sh | xargs -r awk 'length($0) > 150 { print FILENAME ":" FNR ": " length($0) " columns" }' |
    none "no line far over 120 columns"
sources h | xargs -r awk '
    FNR == 1 { guard = "DOPPLER_" toupper(FILENAME); gsub(/[\/.-]/, "_", guard); expected[FILENAME] = guard }
    $1 == "#ifndef" && $2 == expected[FILENAME] { found[FILENAME] }
    END { for (file in expected) if (!(file in found)) print file ": expected #ifndef " expected[file] }' | none "include guards follow the path"

# ---- documents --------------------------------------------------------------------------------------------------------
[ "$(wc -c <README.md)" -le 8500 ] && pass "README.md is short" || fail "README.md is short" "$(wc -c <README.md) bytes"
fields=$(awk '/^struct dop_model \{/ { f = 1; next } /^};/ { f = 0 } f && /;/ { n++ } END { print n + 0 }' runtime/model/model.h)
[ "$fields" -gt 10 ] && [ "$fields" -le 28 ] && pass "a model has few fields" || fail "a model has few fields" "$fields, expected at most 28"
[ "$(wc -c <tests/bench/RESULTS.md)" -le 12288 ] && pass "RESULTS.md is short" ||
    fail "RESULTS.md is short" "$(wc -c <tests/bench/RESULTS.md) bytes"
# Links to files, without those into the net; from a page's own folder.
links() { # PAGE
    grep -oE '\]\([^):]+\)' "$1" | sed 's/^](//; s/)$//' | sort -u
}
for page in README.md docs/*.md tests/bench/RESULTS.md tests/bench/log/*.md; do
    links "$page" | while read -r link; do
        file=${link%%#*}
        [ -z "$file" ] || [ -e "$(dirname "$page")/$file" ] || echo "$page: $link"
        # A heading in words: GitHub's anchor has them small, with dashes, without marks.
        [ "$file" = "$link" ] || sed -n 's/^#* //p' "$(dirname "$page")/${file:-$(basename "$page")}" | tr A-Z a-z | tr -d '`.,:()' | tr ' ' - |
            grep -qx -- "${link#*#}" || echo "$page: $link: no such heading"
    done
done | none "links of documents lead to files"
for page in docs/*.md; do
    for other in README.md docs/*.md; do
        [ "$other" = "$page" ] || links "$other" | sed "s,^,$(dirname "$other")/,; s,^\./,,; s,#.*,,"
    done | grep -qxF "$page" || echo "$page"
done | none "every page is linked from another one"
grep -rhoE 'log/[0-9]{4}-[0-9]{2}-[0-9]{2}-[a-z0-9-]+' base ir passes kernels compiler runtime tests/unit docs | sort -u |
    while read -r page; do [ -e "tests/bench/$page.md" ] || echo "$page"; done | none "every page of the log that something cites is there"
for page in tests/bench/log/*.md; do
    grep -qF "(log/${page##*/})" tests/bench/RESULTS.md || echo "$page"
done | none "RESULTS.md lists every page of the log"
# Files that pages name in code quotes, as far as they are paths from the root.
grep -ohE '`(base|compiler|docs|examples|ir|kernels|passes|runtime|tests)/[A-Za-z0-9_./-]*`' README.md docs/*.md |
    tr -d '`' | grep -v NAME | sort -u |
    while read -r file; do [ -e "$file" ] || echo "$file"; done | none "every file that a page names is there"
bash tests/doc_tables.sh | none "tables of docs/ are those of the code"
awk '/^[a-z]/ { print $1 }' "$WORK/rooms" | grep -vE '^hook|^include' | sort -u | while read -r room; do
    grep -qF "\`$room/\`" docs/design.md || grep -qE "[\`/]${room##*/}/\`" docs/design.md || echo "$room"
done | none "docs/design.md has every room"
sed -n '/^## Names that are to go/,$p' docs/glossary.md | sed -nE 's/^\| `([a-z_]+)` \|.*\| ([0-9]+) \|$/\1 \2/p' >"$WORK/words"
[ "$(wc -l <"$WORK/words")" -ge 10 ] && pass "docs/glossary.md has names that are to go" || fail "docs/glossary.md has names that are to go"
while read -r word most; do
    n=$(grep -rhow --include='*.c' --include='*.h' --include='*.def' --include='*.glsl' "$word" base ir passes kernels compiler runtime | wc -l)
    [ "$n" -le "$most" ] || echo "$word: $n times, $most in docs/glossary.md"
done <"$WORK/words" | none "no name that is to go is used more often"

# Functions of the library that its page names.
grep -ohE '\bdop_[a-z_]+' docs/library.md | sort -u | while read -r name; do
    grep -qw "$name" include/doppler/*.h include/doppler/*.h include/doppler/*.h || echo "$name"
done | none "every name in docs/library.md is in a header"
for target in examples/targets/*.yaml; do
    grep -qF "\`$(basename "$target" .yaml)\`" docs/kernel-paths-and-targets.md || echo "$target"
done | none "docs/kernel-paths-and-targets.md names every target"
# Fields of kernel paths: those that their reader knows, and those of a tile.
{
    sed -nE 's/^TILE\([a-z0-9_]+, ([a-z]+), true.*/\1/p' ir/tile.def
    sed -nE 's/.*strcmp\(key, "([a-z_]+)"\).*/\1/p; s/.*\{"([a-z]+)", &m->.*/\1/p' compiler/schedule/kernel_path_load.c
} | sort -u >"$WORK/paths"
[ "$(wc -l <"$WORK/paths")" -ge 25 ] && pass "fields of kernel paths are found" || fail "fields of kernel paths are found"
while read -r name; do grep -q "^| .*\`$name\`.* |" docs/kernel-paths-and-targets.md || echo "$name"; done <"$WORK/paths" |
    none "docs/kernel-paths-and-targets.md has every field of kernel paths"
for model in tests/golden/*/expected.json; do
    name=$(basename "${model%/*}")
    grep -qF "\`$name\`" docs/models.md || echo "$name"
done | none "docs/models.md names every golden model"

# ---- promises: every test that docs/promises.md names is there --------------------------------------------------------
there() { # NAME of ctest
    local kind=${1%%.*} rest=${1#*.} model
    model=${rest%.again}
    case $kind in
    unit) [ -f "tests/unit/$rest.c" ] ;;
    fuzz) grep -qE "foreach\(group .*\b$rest\b|NAME $1 " tests/CMakeLists.txt ;;
    check) [ -f "tests/check_$rest.sh" ] || grep -q "^dop_script_test($1 " tests/CMakeLists.txt ;;
    passes) [ -f "tests/passes/$rest.sh" ] || grep -q "NAME $1 " tests/CMakeLists.txt ;;
    *) [ -f "tests/$kind/$rest.sh" ] || [ -f "tests/golden/${model%.second}/expected.json" ] ||
        grep -q "^dop_script_test($1 " tests/CMakeLists.txt ;;
    esac
}
sed -n '/^## Promises/,/^Figures:/p' docs/promises.md | grep -oE '`(unit|fuzz|check|passes|golden|errors)\.[a-z0-9_.]+`' | tr -d '`' |
    sort -u >"$WORK/promised"
[ "$(wc -l <"$WORK/promised")" -ge 50 ] && pass "promises name their tests" || fail "promises name their tests"
while read -r name; do there "$name" || echo "$name"; done <"$WORK/promised" | none "every test that a promise names is there"

# ---- examples: the diffs of docs/adding.md still apply --------------------------------------------------------------
awk -v dir="$WORK" '
    /^```diff$/ { name = dir "/example" ++n ".diff"; next }
    /^```$/ { name = ""; next }
    name != "" && /^\+\+\+ b\// { print "--- a/" substr($0, 7) >name }
    name != "" { print >name }' docs/adding.md
[ "$(ls "$WORK"/example*.diff | wc -l)" -eq 6 ] && pass "docs/adding.md has its examples" || fail "docs/adding.md has its examples"
for diff in "$WORK"/example*.diff; do
    patch -p1 --fuzz=0 --dry-run --force --silent <"$diff"
done | none "every example of docs/adding.md applies"

# ---- hidden inputs and leftovers ------------------------------------------------------------------------------------
find base compiler runtime ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(secure_)?getenv *\(|\benviron\b|\bsystem *\(|\bpopen *\(' |
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(XDG_CACHE_HOME|HOME)"\)' | # where the program keeps compiled pipelines
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(OMPI_COMM_WORLD_SIZE|PMIX_RANK|PMI_RANK)"\)' | # that mpirun started it
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("HF_(ENDPOINT|TOKEN)"\)' | # where -hf downloads from
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(NOTIFY_SOCKET|LISTEN_PID|LISTEN_FDS)"\)' | # what systemd says, with --systemd
    grep -v '^base/os/windows/system\.c:[0-9]*:getenv(const char' | # which is defined there
    none "no environment, no shell"
# Messages of the libraries name fields and functions of their headers between backquotes, for which the programs show options.
libraries() {
    find base compiler runtime ir kernels passes -name '*.c' |
        grep -vE '^(base|compiler|runtime)/program/|^compiler/report/|^runtime/(inspect|serve|fetch|parts/mpi)/'
}
libraries | xargs -r grep -nE '"[^"]*--[a-z]' | grep -vE '(doppler-exec|dopplerc|vulkaninfo|hf download) [^"]*--|skips\[--b' |
    none "no message of a library names an option"
libraries | xargs -r grep -hoE '"[^"]*`[^"]*"' | grep -oE '`[a-z][a-z_.]*`' | tr -d '`' | sort -u >"$WORK/named"
[ "$(wc -l <"$WORK/named")" -ge 30 ] && pass "messages name parameters" || fail "messages name parameters"
while read -r name; do grep -q "{\"$name\", " base/program/names.c || echo "$name"; done <"$WORK/named" |
    none "the programs know the option of each parameter that a message names"
find base compiler ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(time|gettimeofday|clock|rand|random|srand) *\(' | none "the compiler asks no clock and no dice"
sources c h def glsl comp sh | grep -v '^tests/check_layout.sh$' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b' |
    none "nothing is left to do"
find . -path './.git' -prune -o -path './build*' -prune -o -type f -size +16M -print | none "no large files"

version=$(sed -n 's/^#define DOP_VERSION "\(.*\)"/\1/p' include/doppler/status.h)
check "one version number ($version)" grep -q "^project(doppler VERSION $version " CMakeLists.txt

finish
