# Facts about the tree that decay unnoticed: top level, who includes whom, file lengths, hidden inputs, tabs.
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

# ---- rooms (quoted includes are written from the root) --------------------------------------------------------------
includes() { # ROOM: every "file: included room/file"
    find "$1" -name '*.[ch]' -o -name '*.def' | sort |
        xargs -r grep -HoE '^ *# *include +"[^"]+"' | sed -E 's/# *include +"([^"]+)"/ \1/'
}

# may_include ROOM REGEX: quoted includes of ROOM's files all match REGEX.
may_include() {
    includes "$1" | grep -vE ":[ ]*($2)" | none "$1/ includes only its own rooms"
}

# What else the compiler needs: the format it writes and the loader that checks it, the text side it packs into plans,
# the reader of GGUF files (tokenizers come from there too), the option table, and the device for `--target auto` and for `--tune`.
compiler='runtime/(plan_format|chunks|plan_weights|plan|gguf|options|cli_process|doppler|bench_kernels|page|text/(tokenizer|chat(_files)?))\.h$'
may_include base "base/"
may_include ir "ir/|base/"
may_include passes "passes/|ir/|base/"
may_include kernels "kernels/|ir/|base/"
may_include compiler "compiler/|kernels/|passes/|ir/|base/|$compiler"
find runtime -name '*.[ch]' ! -path 'runtime/inspect/check/' -print0 | xargs -0 -r grep -HE '^ *# *include +"' |
    grep -vE '"(runtime|base)/' | none "runtime/ includes no other room but base/"
find runtime -name 'check*' -print0 | xargs -0 -r grep -HE '^ *# *include +"' |
    grep -vE '"(runtime|ir|base)/' | none "runtime/inspect/check/ includes the IR, too, and no other room"
# What generates, converses, scores, embeds and tokenizes is a client of the public headers, as other people's programs are.
mkdir -p "$WORK/clients/runtime"
for part in run generate output talk converse chat text shape score embed logits logprobs modes common; do
    cp runtime/cli_$part.c "$WORK/clients/runtime/" && { [ ! -e runtime/cli_$part.h ] || cp runtime/cli_$part.h "$WORK/clients/runtime/"; }
done
cp runtime/program/common/cli.h "$WORK/clients/runtime/"
(cd "$WORK/clients" && includes runtime) | grep -vE ': *(base/(base|json|utf8)|runtime/(cli[a-z_]*|options|spans|sampling|text/ids))\.h$' |
    none "what the program does with models goes through the public headers"
find runtime/library/text runtime/text/jinja -name '*.[ch]' -print0 | xargs -0 -r grep -lE 'vulkan' |
    none "runtime/library/text/ and runtime/text/jinja/ know no device"
grep -rhoE '^ *# *include +"[^"]+"' runtime/text/jinja | grep -vE '"(base/|runtime/text/jinja/)' |
    none "runtime/text/jinja/ needs no tokenizer"
find base ir passes kernels compiler -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<(vulkan|jansson)' |
    grep -vE '^(compiler/|base/json/json\.h:?$)' | none "devices stay out of base/ and, as JSON, out of ir/, passes/ and kernels/"

# ---- circles --------------------------------------------------------------------------------------------------------
# A file needs another when it names a function that the other defines (exported names begin their line).  Files that need
# each other, directly or by way of others, are one file in pieces: groups prints such a group on a line.
groups() {
    awk '
        FNR == 1 { file = FILENAME; sub(/\.c$/, "", file); comment = 0 }
        /^dop_[a-z0-9_]+\(/ { name = $0; sub(/\(.*/, "", name); defines[name] = file }
        {
            text = $0
            gsub(/"([^"\\]|\\.)*"/, "", text)
            if (comment && !sub(/^.*\*\//, "", text)) next
            comment = 0
            gsub(/\/\*([^*]|\*[^\/])*\*\//, "", text)
            comment = sub(/\/\*.*/, "", text)
            sub(/\/\/.*/, "", text)
            while (match(text, /dop_[a-z0-9_]+/)) {
                uses[file, substr(text, RSTART, RLENGTH)]
                text = substr(text, RSTART + RLENGTH)
            }
        }
        END {
            for (pair in uses) {
                split(pair, part, SUBSEP)
                to = defines[part[2]]
                if (to != "" && to != part[1]) edge[part[1], to]
            }
            # What nobody needs, or what needs nobody, stands in no circle.
            do {
                split("", before); split("", after); dropped = 0
                for (pair in edge) { split(pair, part, SUBSEP); after[part[1]]; before[part[2]] }
                for (pair in edge) {
                    split(pair, part, SUBSEP)
                    if (!(part[1] in before) || !(part[2] in after)) { delete edge[pair]; dropped = 1 }
                }
            } while (dropped)
            for (pair in edge) { split(pair, part, SUBSEP); node[part[1]]; node[part[2]]; reach[pair] }
            for (k in node) for (i in node) if ((i, k) in reach) for (j in node) if ((k, j) in reach) reach[i, j]
            for (i in node) {
                n = 0
                for (j in node) if ((i, j) in reach && (j, i) in reach) {
                    for (k = n++; k > 0 && member[k - 1] > j; k--) member[k] = member[k - 1]
                    member[k] = j
                }
                line = member[0]
                for (k = 1; k < n; k++) line = line " " member[k]
                if (n > 0) print line
            }
        }' "$@" | sort -u
}
mkdir -p "$WORK/circle"
printf 'dop_a(void)\n{\n    dop_b(); /* dop_d */\n}\n' >"$WORK/circle/a.c"
printf 'dop_b(void)\n{\n    dop_c();\n}\n' >"$WORK/circle/b.c"
printf 'dop_c(void)\n{\n    dop_a();\n    dop_d();\n}\n' >"$WORK/circle/c.c"
printf 'dop_d(void)\n{\n    puts("dop_a"); /* dop_a,\n    dop_b */\n}\n' >"$WORK/circle/d.c"
[ "$(cd "$WORK/circle" && groups ./*.c)" = "./a ./b ./c" ] && pass "a circle is found" || fail "a circle is found"
find base compiler runtime ir kernels passes -name '*.c' | sort | xargs -r -n 1000 bash -c "$(declare -f groups); groups \"\$@\"" - |
    none "no files in a circle"

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
sources h | while read -r header; do
    guard="DOPPLER_$(echo "$header" | tr 'a-z/.-' 'A-Z___')"
    grep -q "^#ifndef $guard$" "$header" || echo "$header: expected #ifndef $guard"
done | none "include guards follow the path"

# ---- promises: every test that README names is there ------------------------------------------------------------------
there() { # NAME of ctest
    local kind=${1%%.*} rest=${1#*.}
    case $kind in
    unit) [ -f "tests/unit/$rest.c" ] ;;
    fuzz) grep -qE "foreach\(group .*\b$rest\b|NAME $1 " tests/CMakeLists.txt ;;
    check) [ -f "tests/check_$rest.sh" ] || grep -q "^dop_script_test($1 " tests/CMakeLists.txt ;;
    passes) [ -f "tests/passes/$rest.sh" ] || grep -q "NAME $1 " tests/CMakeLists.txt ;;
    *) [ -f "tests/$kind/$rest.sh" ] || [ -f "tests/golden/${rest%.again}/expected.json" ] ||
        grep -q "^dop_script_test($1 " tests/CMakeLists.txt ;;
    esac
}
sed -n '/^### Promises/,/^Figures:/p' README.md | grep -oE '`(unit|fuzz|check|passes|golden|errors)\.[a-z0-9_.]+`' | tr -d '`' |
    sort -u >"$WORK/promised"
[ "$(wc -l <"$WORK/promised")" -ge 50 ] && pass "README names the tests of its promises" || fail "README names the tests of its promises"
while read -r name; do there "$name" || echo "$name"; done <"$WORK/promised" | none "every test that a promise names is there"

# ---- examples: the diffs of contributing.md still apply --------------------------------------------------------------
awk -v dir="$WORK" '
    /^```diff$/ { name = dir "/example" ++n ".diff"; next }
    /^```$/ { name = ""; next }
    name != "" && /^\+\+\+ b\// { print "--- a/" substr($0, 7) >name }
    name != "" { print >name }' examples/contributing.md
[ "$(ls "$WORK"/example*.diff | wc -l)" -eq 5 ] && pass "contributing.md has its examples" || fail "contributing.md has its examples"
for diff in "$WORK"/example*.diff; do
    patch -p1 --fuzz=0 --dry-run --force --silent <"$diff"
done | none "every example of contributing.md applies"

# ---- hidden inputs and leftovers ------------------------------------------------------------------------------------
find base compiler runtime ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(secure_)?getenv *\(|\benviron\b|\bsystem *\(|\bpopen *\(' |
    grep -vE '^runtime/program/main\.c:.*getenv\("(XDG_CACHE_HOME|HOME|OMPI_COMM_WORLD_SIZE|PMIX_RANK|PMI_RANK)"\)' | # where pipelines are kept; MPI
    none "no environment, no shell"
find base compiler ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(time|gettimeofday|clock|rand|random|srand) *\(' | none "the compiler asks no clock and no dice"
sources c h def glsl comp sh | grep -v '^tests/check_layout.sh$' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b' |
    none "nothing is left to do"
find . -path './.git' -prune -o -path './build*' -prune -o -type f -size +16M -print | none "no large files"

version=$(sed -n 's/^#define DOP_VERSION "\(.*\)"/\1/p' base/include/doppler/status.h)
check "one version number ($version)" grep -q "^project(doppler VERSION $version " CMakeLists.txt

finish
