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
        find compiler runtime ir kernels passes tests examples -name "*.$ending" -type f
    done
}

find . -mindepth 1 -maxdepth 1 ! -name '.*' ! -name 'build' ! -name 'build-*' -printf '%f\n' |
    grep -vxE 'CMakeLists\.txt|compiler|runtime|ir|kernels|passes|tests|examples|README\.md|LICENSE' |
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

# What both halves share: status and buffers, threads, and the facts of a device.
base='runtime/(base|caps|parallel)\.h$'
# What else the compiler needs: the format it writes and the loader that checks it, the text side it packs into plans,
# the reader of GGUF files (tokenizers come from there too), the option table, and the device for `--target auto`.
compiler='runtime/(plan_format|plan_weights|plan|gguf|options|doppler|page|text/(tokenizer|chat|utf8))\.h$'
may_include ir "ir/|$base"
may_include passes "passes/|ir/|$base"
may_include kernels "kernels/|ir/|$base"
may_include compiler "compiler/|kernels/|passes/|ir/|$compiler|$base"
find runtime -name '*.[ch]' ! -path 'runtime/check*' -print0 | xargs -0 -r grep -HE '^ *# *include +"' |
    grep -vE '"runtime/' | none "runtime/ includes no other room"
find runtime -name 'check*' -print0 | xargs -0 -r grep -HE '^ *# *include +"' |
    grep -vE '"(runtime|ir)/' | none "runtime/check* includes the IR only"
find runtime/text runtime/jinja -name '*.[ch]' -print0 | xargs -0 -r grep -lE 'vulkan' |
    none "runtime/text/ and runtime/jinja/ know no device"
grep -rhoE '^ *# *include +"[^"]+"' runtime/jinja | grep -vE '"runtime/(jinja/|base\.h|text/utf8\.h)' |
    none "runtime/jinja/ needs no tokenizer"
find ir passes kernels compiler -name '*.[ch]' -print0 | xargs -0 -r grep -lE '^ *# *include +<(vulkan|jansson)' |
    grep -vE '^compiler/' | none "devices and JSON stay out of ir/, passes/ and kernels/"

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

# ---- hidden inputs and leftovers ------------------------------------------------------------------------------------
find compiler runtime ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(secure_)?getenv *\(|\benviron\b|\bsystem *\(|\bpopen *\(' |
    grep -vE '^runtime/main\.c:.*getenv\("(XDG_CACHE_HOME|HOME)"\)' | # where the program keeps compiled pipelines
    none "no environment, no shell"
find compiler ir kernels passes -name '*.[ch]' -print0 |
    xargs -0 -r grep -nE '\b(time|gettimeofday|clock|rand|random|srand) *\(' | none "the compiler asks no clock and no dice"
sources c h def glsl comp sh | grep -v '^tests/check_layout.sh$' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b' |
    none "nothing is left to do"
find . -path './.git' -prune -o -path './build*' -prune -o -type f -size +16M -print | none "no large files"

version=$(sed -n 's/^#define DOP_VERSION "\(.*\)"/\1/p' runtime/base.h)
check "one version number ($version)" grep -q "^project(doppler VERSION $version " CMakeLists.txt

finish
