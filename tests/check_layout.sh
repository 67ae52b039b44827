# Facts about the tree that decay unnoticed: top level, which module uses which, file lengths, hidden inputs, tabs, documents.
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

# Folders of product code; tools are the programs.
MODULES="include base plan ir passes kernels text media frontend runtime compiler serve tools"

# Every file of the source tree with one of the given endings; build trees and hidden folders are not part of it.
sources() {
    local ending
    for ending in "$@"; do
        find $MODULES bindings tests examples -name "*.$ending" -type f
    done
}

find . -mindepth 1 -maxdepth 1 ! -name '.*' ! -name 'build' ! -name 'build-*' -printf '%f\n' |
    grep -vxE "${MODULES// /|}|bindings|packaging|cmake|tests|examples|docs" |
    grep -vxE '(README|CONTRIBUTING|SECURITY|CHANGELOG)\.md|LICENSE|CMake(Lists\.txt|Presets\.json)' |
    none "nothing else at the top level"

# ---- modules and circles (quoted includes are written from the root) ---------------------------------------------------
# A module, and what its files may use in addition to itself: modules above it here, and what these may use (layout.awk).
cat >"$WORK/modules" <<'end'
include
base                        include
plan                        base
ir                          base
passes                      ir
kernels                     base ir
text                        base include
media                       base include
frontend                    base ir text media
runtime                     base include plan text media
compiler                    base include plan ir passes kernels text frontend =runtime/device/probe.h =runtime/model/info.h
serve                       base include plan text media runtime
tools                       include base plan ir passes kernels text media frontend runtime compiler serve
hook dop_replay_observer
hook dop_job_task
hook dop_task_writer
hook dop_models_how
end
# The same of the folders inside the modules; FILE.* are the files of one name.
cat >"$WORK/folders" <<'end'
include
base/os                     include
base                        base/os
base/encoding               base
base/json                   base/encoding
base/yaml                   base/json
base/format                 base/json
base/storage                base
base/program                base/json
plan                        base/json base/storage include
ir                          base/storage
ir/graph                    ir
ir/region                   ir/graph
ir/syntax                   ir/region
ir/interp                   ir/region
passes/fusion/reasons.*     ir/graph
passes/passes.*             passes/fusion/reasons.*
passes/pass.*               passes/passes.*
passes/run.*                passes/pass.* ir/syntax
passes/fusion               ir/region passes/run.*
passes                      passes/fusion ir/interp
kernels/nest                base
kernels/kernels.*           base
kernels/emit                ir/region
kernels/kernel.*            kernels/emit kernels/kernels.*
kernels/descriptor.*        kernels/kernel.*
kernels/variants.*          kernels/descriptor.*
kernels/gen                 kernels/variants.* kernels/nest
kernels/select.*            kernels/gen
kernels/row                 kernels/gen kernels/select.*
kernels/product             kernels/row
kernels/attention           kernels/row
kernels/scan                kernels/row
kernels/spirv               kernels/gen kernels/select.*
kernels                     kernels/product kernels/attention kernels/scan kernels/spirv
text/jinja                  base/json
text/tokenizer              base/json include
text/chat                   text/tokenizer text/jinja base/program
text/calls                  text/chat
text/grammar                text/chat
text/schema                 text/grammar
text/import                 base/format text/chat text/tokenizer
media                       base
media/picture               media
media/audio                 media
frontend/facts              ir/interp base/yaml text/import
frontend/families           frontend/facts
frontend/vision             frontend/families media/picture
frontend/gguf               frontend/vision
frontend/hf                 frontend/vision
frontend/rdrr               frontend/hf
frontend/diffusion          frontend/hf
frontend                    frontend/diffusion frontend/gguf frontend/rdrr base/format
frontend/build              frontend/facts
runtime/device              plan
runtime/sample              plan
runtime/cache               base
runtime/model               runtime/device runtime/sample
runtime/parts/lead          runtime/model runtime/cache
runtime/step                runtime/parts/lead base/format
runtime/library             runtime/step media/picture text/schema
runtime/parts               runtime/library
runtime/parts/mpi           runtime/parts
compiler/target             plan ir base/yaml =runtime/device/probe.h
compiler/pack               frontend/build kernels
compiler/schedule           compiler/pack compiler/target frontend passes kernels =runtime/device/probe.h
compiler/write              compiler/schedule plan
compiler/report             compiler/write base/program
compiler/parts              compiler/report
compiler/library            compiler/parts =runtime/device/probe.h =runtime/model/info.h
serve/engine                runtime/library public
serve/api                   serve/engine base/program text/calls public
serve/protocols             serve/api public
serve                       serve/protocols public
serve/http                  serve
tools/bench                 runtime/step base/program public
tools/profile               tools/bench public
tools/check                 runtime/step ir/interp ir/syntax base/program public
tools/imatrix               tools/check public
tools/fetch                 base base/json
tools/doppler-exec/common   runtime/library text/import public
tools/doppler-exec/client   include =runtime/sample =text/chat =text/tokenizer =tools/doppler-exec/common base/program base/json public
tools/doppler-exec/on_demand tools/doppler-exec/common runtime/parts/lead tools/fetch public
tools/doppler-exec          tools/doppler-exec/on_demand tools/doppler-exec/client base/yaml serve/http runtime/parts/mpi public
tools/doppler-exec          tools/profile tools/check tools/imatrix
tools/dopplerc              compiler/library tools/bench
hook dop_replay_observer
hook dop_job_task
hook dop_task_writer
hook dop_models_how
end
layout() { # TABLE FOLDER...: what layout.awk says about the files of the folders
    local table=$1
    shift
    # base/os/windows is another form of functions of base/os and base/program: both are never built together.
    find "$@" -path base/os/windows -prune -o \( -name '*.def' -o -name '*.h' \) -print | sort >"$WORK/files"
    find "$@" -path base/os/windows -prune -o -name '*.c' -print | sort >>"$WORK/files"
    if [ -d tests ]; then find tests -name '*.c' | sort >>"$WORK/files"; fi
    xargs awk -f "$SRC/tests/layout.awk" "$table" <"$WORK/files" | sort
}
for table in modules folders; do
    # shellcheck disable=SC2086 # folders
    layout "$WORK/$table" $MODULES >"$WORK/layout"
    grep '^up' "$WORK/layout" | none "$table: no file uses what it may not use"
    grep '^circle' "$WORK/layout" | none "$table: no files in a circle"
    grep -E '^(none|row)' "$WORK/layout" | none "$table: every file is in the table, and lines use those before them"
done
# Each module says in its README what it may include, and is built by a CMakeLists.txt of its own.
for module in $MODULES; do
    uses=$(awk -v module="$module" '$1 == module { $1 = ""; sub(/^ /, ""); print }' "$WORK/modules")
    said=$(sed -n 's/^May include: //p' "$module/README.md" | tr -d '`,.' | sed 's,/\( \|$\),\1,g')
    uses=$(printf '%s' "${uses:-nothing}" | tr -d '=.')
    [ "$said" = "$uses" ] || echo "$module/README.md: may include $said; the table has $uses"
done | none "every module has a README, which says what it may include"
[ "$(wc -c <CMakeLists.txt)" -le 8000 ] && pass "CMakeLists.txt is short" || fail "CMakeLists.txt is short" "$(wc -c <CMakeLists.txt) bytes"
for module in ${MODULES#include } bindings packaging; do
    [ "$(wc -l <"$module/CMakeLists.txt")" -le 80 ] || echo "$module/CMakeLists.txt: $(wc -l <"$module/CMakeLists.txt") lines"
    grep -nE 'GLOB_RECURSE|REMOVE_ITEM|list\(FILTER' "$module/CMakeLists.txt" /dev/null
done | none "every module has a short CMakeLists.txt, without globs that need exceptions"

# What that finds, in a tree of three folders.
mkdir -p "$WORK/tree/low" "$WORK/tree/high" "$WORK/tree/other"
cat >"$WORK/tree/table" <<'end'
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
(cd "$WORK/tree" && layout table low high other) | diff "$WORK/tree/want" - |
    none "arcs by include, call and table, and circles, are found"

# A schedule to run is looked up in the table of used ones (dop_used_of); what remains loads (pipelines too), checks, clears and lists all of them.
n=$(grep -rnE 'for \(.*n_schedules' plan runtime serve tools --exclude-dir=dopplerc --include='*.c' --include='*.h' | wc -l)
[ "$n" -le 13 ] && pass "few loops over a plan's schedules" || fail "few loops over a plan's schedules" "$n, expected at most 13"
find text base media -name '*.[ch]' -print0 | xargs -0 -r grep -lE 'vulkan' |
    none "text/, base/ and media/ use no device"
find base ir passes kernels -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<(vulkan|jansson)' |
    grep -v '^base/json/' | none "devices and JSON stay out of base/, ir/, passes/ and kernels/"
find $MODULES -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<mpi' |
    grep -v '^runtime/parts/mpi/' | none "MPI stays in its module"

# ---- files ----------------------------------------------------------------------------------------------------------
sources c h def glsl comp sh | xargs -r wc -l | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines" }' |
    none "no file over 800 lines"
sources c h def glsl comp sh yaml html css js | xargs -r grep -nP '\t| +$|\r' | cut -c1-120 |
    none "no tabs, trailing blanks or carriage returns"
find $MODULES \( -path '*/assets/*' -o -path 'serve/page/*' \) -type f ! -name '*.html' ! -name '*.css' ! -name '*.js' ! -name '*.cmake' |
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
grep -rhoE 'log/[0-9]{4}-[0-9]{2}-[0-9]{2}-[a-z0-9-]+' $MODULES tests/unit docs | sort -u |
    while read -r page; do [ -e "tests/bench/$page.md" ] || echo "$page"; done | none "every page of the log that something cites is there"
for page in tests/bench/log/*.md; do
    grep -qF "(log/${page##*/})" tests/bench/RESULTS.md || echo "$page"
done | none "RESULTS.md lists every page of the log"
# Files that pages name in code quotes, as far as they are paths from the root.
grep -ohE "\`(${MODULES// /|}|bindings|packaging|cmake|docs|examples|tests)/[A-Za-z0-9_./-]*\`" README.md docs/*.md |
    tr -d '`' | grep -v NAME | sort -u |
    while read -r file; do [ -e "$file" ] || echo "$file"; done | none "every file that a page names is there"
bash tests/doc_tables.sh | none "tables of docs/ are those of the code"
awk '/^[a-z]/ && $1 !~ /\*$/ && $1 != "hook" { print $1 }' "$WORK/modules" "$WORK/folders" | sort -u | while read -r folder; do
    grep -qF "\`$folder/\`" docs/design.md || grep -qE "[\`/]${folder##*/}/\`" docs/design.md || echo "$folder"
done | none "docs/design.md has every folder"
sed -n '/^## Names that are to go/,$p' docs/glossary.md | sed -nE 's/^\| `([a-z_]+)` \|.*\| ([0-9]+) \|$/\1 \2/p' >"$WORK/words"
[ "$(wc -l <"$WORK/words")" -ge 10 ] && pass "docs/glossary.md has names that are to go" || fail "docs/glossary.md has names that are to go"
while read -r word most; do
    n=$(grep -rhow --include='*.c' --include='*.h' --include='*.def' --include='*.glsl' "$word" $MODULES | wc -l)
    [ "$n" -le "$most" ] || echo "$word: $n times, $most in docs/glossary.md"
done <"$WORK/words" | none "no name that is to go is used more often"

# Functions of the library that its page names.
grep -ohE '\bdop_[a-z_]+' docs/library.md | sort -u | while read -r name; do
    grep -qw "$name" include/doppler/*.h || echo "$name"
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
    unit) compgen -G "tests/unit/*/$rest.c" >/dev/null ;;
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
find $MODULES -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(secure_)?getenv *\(|\benviron\b|\bsystem *\(|\bpopen *\(' |
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(XDG_CACHE_HOME|HOME)"\)' | # where the program keeps compiled pipelines
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(OMPI_COMM_WORLD_SIZE|PMIX_RANK|PMI_RANK)"\)' | # that mpirun started it
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("HF_(ENDPOINT|TOKEN)"\)' | # where -hf downloads from
    grep -vE '^tools/doppler-exec/main\.c:.*getenv\("(NOTIFY_SOCKET|LISTEN_PID|LISTEN_FDS)"\)' | # what systemd says, with --systemd
    grep -v '^base/os/windows/system\.c:[0-9]*:getenv(const char' | # which is defined there
    none "no environment, no shell"
# Messages of the libraries name fields and functions of their headers between backquotes, for which the programs show options.
libraries() {
    find $MODULES -name '*.c' |
        grep -vE '^base/program/|^compiler/report/|^(serve|tools|text/calls)/|^runtime/parts/mpi/'
}
libraries | xargs -r grep -nE '"[^"]*--[a-z]' | grep -vE '(doppler-exec|dopplerc|vulkaninfo|hf download) [^"]*--|skips\[--b' |
    none "no message of a library names an option"
libraries | xargs -r grep -hoE '"[^"]*`[^"]*"' | grep -oE '`[a-z][a-z_.]*`' | tr -d '`' | sort -u >"$WORK/named"
[ "$(wc -l <"$WORK/named")" -ge 30 ] && pass "messages name parameters" || fail "messages name parameters"
while read -r name; do grep -q "{\"$name\", " base/program/names.c || echo "$name"; done <"$WORK/named" |
    none "the programs know the option of each parameter that a message names"
find base frontend compiler ir kernels passes text/import tools/dopplerc -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(time|gettimeofday|clock|rand|random|srand) *\(' | none "the compiler asks no clock and no dice"
sources c h def glsl comp sh | grep -v '^tests/check_layout.sh$' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b' |
    none "nothing is left to do"
find . -path './.git' -prune -o -path './build*' -prune -o -type f -size +16M -print | none "no large files"

version=$(sed -n 's/^#define DOP_VERSION "\(.*\)"/\1/p' include/doppler/status.h)
check "one version number ($version)" grep -q "^project(doppler VERSION $version " CMakeLists.txt

finish
