# What is built and installed: names, dependencies, and that an installed compiler needs nothing of its source tree.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$DOPPLERC")
model=$SRC/tests/golden/llama

nothing() { # NAME TEXT: passes when TEXT is empty
    if [ -z "$2" ]; then pass "$1"; else fail "$1" "$(echo "$2" | head -n 10 | tr '\n' ' ')"; fi
}

# ---- libraries ------------------------------------------------------------------------------------------------------
for library in "$build"/libdop_*.a; do
    name=$(basename "$library" .a)
    nothing "$name exports dop_ names only" \
        "$(nm -g --defined-only "$library" | awk 'NF == 3 && $3 !~ /^(dop_|__)/ { print $3 }' | sort -u)"
done
nothing "the runtime library calls no compiler" \
    "$(nm -g --undefined-only "$build"/libdop_{base,plan,text,media,runtime,exec}.a |
        awk '$1 == "U" && $2 ~ /^(shaderc|spvc|dop_(ir|graph|pass|kernel))/ { print $2 }' | sort -u)"
# A list of models (--models) is YAML, so the program has libyaml.
nothing "doppler-exec loads no compiler" "$(ldd "$EXEC" | grep -E 'shaderc|spirv')"
nothing "doppler-exec loads no compiler and no libcurl at its start" "$(ldd "$EXEC" | grep -E 'libdopplerc|curl')"
nothing "doppler-exec loads no MPI" "$(ldd "$EXEC" "$build/libdoppler.so" | grep -E 'mpi|pmix|open-(rte|pal)')"

# ---- installation ---------------------------------------------------------------------------------------------------
check "installs" cmake --install "$build" --prefix "$WORK/prefix"
mv "$WORK/prefix" "$WORK/moved"
installed=$WORK/moved/bin/dopplerc
lib=$(dirname "$(find "$WORK/moved" -name libdoppler.so -print -quit)")
for program in dopplerc doppler-exec; do
    check "$program runs" "$WORK/moved/bin/$program" --version
    check "$program loads the library beside it" \
        [ "$(ldd "$WORK/moved/bin/$program" | awk '$1 == "libdoppler.so.0" { print $3 }' | xargs realpath)" = "$(realpath "$lib/libdoppler.so")" ]
    nothing "and holds nothing of it" "$(comm -12 \
        <(nm --defined-only "$build/$program" | awk '{ print $3 }' | grep ^dop_ | sort -u) \
        <(nm -D --defined-only "$lib/libdoppler.so" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u))"
done
check "every template" diff -r "$SRC/kernels/glsl" "$WORK/moved/share/doppler/glsl"
check "compiles from the build tree" "$DOPPLERC" "$model" -o build.plan --quiet
check "compiles when installed" "$installed" "$model" -o installed.plan --quiet
check "and makes the same plan" cmp build.plan installed.plan

if command -v npm >/dev/null; then # a folder is installed as a link: nothing is asked of the registry
    mkdir -p node && (cd node && echo '{"type": "module"}' >package.json)
    check "the package for Node installs" sh -c 'cd node && npm install --offline --silent --no-audit --no-fund "$1"' sh \
        "$WORK/moved/share/doppler/node"
    check "and is found" sh -c 'cd node && node -e "import(\"doppler\").then((m) => process.exit(m.Model ? 0 : 1))" &&
        echo "process.exit(require(\"doppler\").Model ? 0 : 1)" >of.cjs && node of.cjs'
fi

nothing "no file of the installation has a path of the source tree" "$(grep -rlaF "$SRC" "$WORK/moved/bin" "$lib")"
fetch=$lib/doppler/doppler-fetch.so
[ ! -e "$fetch" ] || check "downloads link what computes digests" sh -c 'readelf -d "$1" | grep -q NEEDED.*libcrypto' sh "$fetch"
for program in dopplerc doppler-exec; do
    check "$program names the shader compiler" grep -qE '^with shaderc .+, SPIRV-Tools v' <("$WORK/moved/bin/$program" --version)
done
check "a plan names it too" sh -c '"$1" build.plan --info | grep "^made by" | grep -qF "$("$1" --version | sed -n "s/^with //p")"' sh "$EXEC"

# ---- libdoppler -----------------------------------------------------------------------------------------------------
prefix=$WORK/moved
# Functions that the headers declare: lines that begin with a type and name one.
find "$prefix/include/doppler" -name '*.h' ! -name compile.h -exec grep -hoE '^[a-z].*\bdop_[a-z_0-9]+\(' {} + |
    grep -v '^typedef' | grep -oE 'dop_[a-z_0-9]+\($' |
    tr -d '(' | sort -u >declared
nm -D --defined-only "$lib/libdoppler.so" | awk '$2 == "T" && $3 !~ /@DOPPLER_PRIVATE_/ { sub(/@.*/, "", $3); print $3 }' | sort -u >exported
check "libdoppler.so exports what its headers declare" diff declared exported
nm -D --defined-only "$lib/libdopplerc.so" | awk '$2 == "T" && $3 !~ /@DOPPLERC_PRIVATE_/ { sub(/@.*/, "", $3); print $3 }' | sort -u >compiles
check "libdopplerc.so exports what its header declares" [ "$(cat compiles)" = dop_compile ]
nothing "under a version too" "$(nm -D --defined-only "$lib/libdopplerc.so" | awk '$2 == "T" && $3 !~ /@@DOPPLERC_/ { print $3 }')"
nothing "under a version" "$(nm -D --defined-only "$lib/libdoppler.so" | awk '$2 == "T" && $3 !~ /@@DOPPLER_/ { print $3 }')"
# holds LIBRARY MODULE...: passes when the library exports the dop_ names of these modules and no others; base/program/page.c is also in
# libdopplerc, for reports
holds() {
    local library=$1
    shift
    nm -D --defined-only "$lib/$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | grep '^dop_' | sort -u >exported
    for module in "$@"; do nm -g --defined-only "$build/libdop_$module.a"; done | awk 'NF == 3 { print $3 }' | grep '^dop_' | sort -u >named
    nothing "$library holds $*" "$(comm -3 exported named | grep -v dop_page_)"
}
holds libdoppler.so base plan text media runtime
holds libdopplerc.so yaml text_import ir passes kernels frontend compiler
# Shared libraries that it loads, without the numbers in their names.
nothing "libdoppler.so loads nothing else" "$(readelf -d "$lib/libdoppler.so" | sed -n 's/.*NEEDED.*\[lib\([a-z0-9-]*\)\.so.*/\1/p' |
    grep -vxE 'vulkan|jansson|pcre2-8|utf8proc|xxhash|png[0-9]*|jpeg|webp|webpdemux|z|m|c|dl|pthread|asan|ubsan')"
# What the programs have beside that is of one release: another library's file is refused.
mkdir -p other
private=DOPPLER_PRIVATE_$("$installed" --version | awk 'NR == 1 { print $2 }')
LC_ALL=C sed "s/$private/${private%?}x/g" "$lib/libdoppler.so" >other/libdoppler.so.0
check_fails "a library of another release is refused" 1 "version \`$private' not found" \
    env LD_LIBRARY_PATH="$WORK/other" "$prefix/bin/doppler-exec" --version
check "also by the compiler and its library" sh -c '! LD_LIBRARY_PATH=$1 "$2" --version >said 2>&1 && [ "$(grep -cF "$3" said)" -ge 1 ]' \
    sh "$WORK/other" "$prefix/bin/dopplerc" "version \`$private' not found"
nothing "the library prints nothing" \
    "$(nm -D --undefined-only "$lib/libdoppler.so" | awk '{ print $2 }' | grep -E '^(printf|puts|putchar|stdout|stderr|perror|exit)(@|$)')"
nothing "the compiler's library asks for no environment either" \
    "$(nm -D --undefined-only "$lib/libdopplerc.so" | awk '{ print $2 }' | grep -E '^(perror|exit|(secure_)?getenv)(@|$)')"
nothing "and asks for no environment" \
    "$(nm -D --undefined-only "$lib/libdoppler.so" | awk '{ print $2 }' | grep -E '^(secure_)?getenv(@|$)')"
nothing "no private headers" "$(grep -rhE '^ *# *include +"' "$prefix/include")"
for language in "cc -std=c11" "c++ -std=c++11 -x c++"; do
    printf '#include <doppler/doppler.h>\n#include <doppler/generation.h>\n#include <doppler/compile.h>\nint main(void) { return 0; }\n' >empty.c
    # shellcheck disable=SC2086 # words
    check "headers alone: $language" $language -Wall -Wextra -pedantic -Wshadow -Werror -I"$prefix/include" -c empty.c -o empty.o
done
if nm "$lib/libdoppler.so" | grep -q __asan_; then
    skip "the example" "a library with sanitizers"
else
    demo=$SRC/examples/shakespeare-gemma3
    check "a plan for the example" "$DOPPLERC" "$demo" -o demo.plan --ctx 64 --chunks 8 --sequences 2 --target lavapipe --quiet
    check "the example configures" cmake -S "$SRC/examples/embed" -B embed -DCMAKE_PREFIX_PATH="$prefix"
    check "the example builds" cmake --build embed
    check "with pkg-config too" env PKG_CONFIG_PATH="$lib/pkgconfig" sh -c \
        'cc "$1" -o write $(pkg-config --cflags --libs doppler)' sh "$SRC/examples/embed/write.c"
    "$EXEC" demo.plan -p "ROMEO:" -n 24 --temp 0 --quiet >want
    check "the example in C" sh -c 'LD_LIBRARY_PATH=$1 ./write demo.plan ROMEO: 12 kept.bin >written' sh "$lib"
    check "writes what doppler-exec writes" sh -c \
        '{ sed -n "/^greedy:/,\$p" written | sed "s/^greedy://; s/^[0-9]* tokens restored:/@/" |
           tr -d "\n" | tr -d "@"; } >got && tr -d "\n" <want | cmp - got'
    check "the example in C++" sh -c 'embed/together demo.plan 24 ROMEO: JULIET: >both'
    check "each text as if it were alone" sh -c \
        'sed -n "2,/^---/p" both | sed "/^---/d" | tr -d "\n" >got && tr -d "\n" <want | cmp - got'
fi

# ---- plans in parts ---------------------------------------------------------------------------------------------------
"$DOPPLERC" "$model" -o parts.plan --parts 2 --target lavapipe --quiet
module=$lib/doppler/doppler-mpi.so
if [ -e "$module" ]; then
    check_fails "what runs parts is found where it is installed" 2 "a plan in 2 parts, each for a process and a device of its own" \
        "$prefix/bin/doppler-exec" parts.plan --tokens 1 -n 1
    mv "$module" kept.so
fi
check_fails "without it, a plan in parts names the package" 2 "the plan is in 2 parts, which run under MPI: install the package doppler-mpi" \
    "$prefix/bin/doppler-exec" parts.plan --tokens 1 -n 1
[ ! -e kept.so ] || mv kept.so "$module"

# ---- what helps at a terminal ----------------------------------------------------------------------------------------
for program in dopplerc doppler-exec; do
    if [ "$(git -C "$SRC" rev-parse --show-toplevel 2>/dev/null)" = "$SRC" ]; then
        check "$program names its commit" grep -qE "^$program [0-9.]+ \([0-9a-f]{12}\)$" <("$prefix/bin/$program" --version)
    fi
    page=$prefix/share/man/man1/$program.1
    check "$program: every option is in its manual page" \
        [ "$(sed '/^\.SH EXAMPLES/q' "$page" | grep -c '^\.TP')" -eq "$("$prefix/bin/$program" --help | grep -c '^  -')" ]
    # shellcheck disable=SC1090 # made by the build
    offers=$(. "$prefix/share/bash-completion/completions/$program" && COMP_WORDS=("$program" --qui) COMP_CWORD=1 &&
        "_${program//-/_}" && echo "${COMPREPLY[@]}")
    check "$program: --qui is completed" [ "$offers" = --quiet ]
    for section in NAME SYNOPSIS DESCRIPTION EXAMPLES FILES "EXIT STATUS" ENVIRONMENT; do
        check "$program: its manual page has $section" grep -qx "\.SH $section" "$page"
    done
done

# completes WORD... : what is offered for the last word, where bash cuts words at =
completes() {
    # shellcheck disable=SC1090
    . "$prefix/share/bash-completion/completions/$1" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && "_${1//-/_}" && echo "${COMPREPLY[@]}"
}
first_words() { "$prefix/bin/dopplerc" "$1" | cut -d' ' -f1 | paste -sd' '; }
check "targets are completed" [ "$(completes dopplerc --target "")" = "$(first_words --list-targets)" ]
check "a target in a list, after =" [ "$(completes dopplerc --target = tier1,intel-xe2)" = tier1,intel-xe2 ]
check "types are completed" [ "$(completes dopplerc --quant q8)" = q8_0 ]
check "only those of caches for --kv" [ "$(completes dopplerc --kv q)" = "q4_0 q8_0" ]
check "passes are completed" [ "$(completes dopplerc --skip "")" = \
    "$("$prefix/bin/dopplerc" --help | sed -n 's/^  [A-Z]  \([a-z-]*\) .*/\1/p' | paste -sd' ')" ]
check "kernels are completed" [ "$(completes dopplerc --force gemv = "")" = "$(first_words --list-kernels)" ]
check "kernel paths are completed" [ "$(completes dopplerc --kernel-path gemma3)" = gemma3-q4k-int8a ]
check "ops are not" [ -z "$(completes dopplerc --force gem)" ]
check "chat templates are completed" [ "$(completes doppler-exec --chat-template "")" = \
    "$(sed -n '/builtins\[\] = {/,/^};/s/^    {"\([a-z0-9-]*\)".*/\1/p' "$SRC/text/chat/chat.c" | paste -sd' ')" ]
check "orderings are completed" [ "$(completes doppler-exec --ordering pe)" = persistent ]
for option in quant kv target kernel-path act; do
    check "--$option is completed where it is passed on" [ "$(completes doppler-exec "--$option" "")" = "$(completes dopplerc "--$option" "")" ]
done
check "stages are completed" [ "$(completes dopplerc --emit "")" = "ir regions nest glsl spirv plan" ]
check "places of weights are completed" [ "$(completes dopplerc --weights m)" = model ]

# ---- documents -------------------------------------------------------------------------------------------------------
check "the documents are those of the sources" diff <(cd "$SRC" && ls README.md docs/*.md) \
    <(cd "$prefix/share/doc/doppler" && ls README.md docs/*.md)
(cd "$prefix/share/doc/doppler" && grep -oE '\]\([^)#:]+' README.md docs/*.md | while IFS=: read -r file link; do
    [ -e "$(dirname "$file")/${link#*\(}" ] || echo "$file: ${link#*\(}"
done) >dead
check "their links lead somewhere" diff /dev/null dead

# ---- examples/serve --------------------------------------------------------------------------------------------------
check "the examples of servers are installed" diff -r "$SRC/examples/serve" "$prefix/share/doc/doppler/examples/serve"
sed -n '/^```ini/,/^```$/p' "$SRC/docs/server.md" | sed '/^```/d' >documented.service
check "the documented unit has a start, a reload and a type that systemd 252 has" \
    [ "$(grep -cE '^(Type=notify|ExecStart=.* --systemd .*|ExecReload=.*)$' documented.service)" = 3 ]
if command -v systemd-analyze >/dev/null; then
    sed -i 's|/usr/bin/doppler-exec|/bin/true|' documented.service
    sed 's|/usr/local/bin/doppler-exec|/bin/true|' "$SRC/examples/serve/doppler.service" >doppler@.service
    for unit in documented.service doppler@8080.service; do
        check "$unit" sh -c 'systemd-analyze verify "./$1" >unit.log 2>&1; ! grep -E "^(.*/)?(documented|doppler@)" unit.log' sh $unit
    done
fi
# Libraries that the container's program needs, by the packages here, but for those of every Debian.
if command -v dpkg-query >/dev/null && ! nm "$lib/libdoppler.so" | grep -q __asan_; then
    readelf -d "$prefix/bin/doppler-exec" "$lib/libdoppler.so" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | sort -u |
        while read -r soname; do
            file=$(ldd "$prefix/bin/doppler-exec" | awk -v so="$soname" '$1 == so { print $3 }')
            package=$(dpkg-query -S "$(realpath "$file")" 2>/dev/null | sed 's/[:,].*//' | head -n 1)
            case $soname in libc.so.* | libm.so.* | libdoppler.so.* | ld-linux*) continue ;; esac
            grep -qw -- "$package" "$SRC/examples/serve/Containerfile" || echo "$soname of $package"
        done >missing
    nothing "the container has the libraries of the program" "$(cat missing)"
fi

# ---- packages --------------------------------------------------------------------------------------------------------
if nm "$lib/libdoppler.so" | grep -q __asan_ || ! command -v dpkg-shlibdeps >/dev/null || ! command -v file >/dev/null; then
    skip "packages" "a library with sanitizers, or no tools of Debian"
else
    check "packages" cpack --config "$build/CPackConfig.cmake" -B packages
    mpi=
    [ -e "$lib/doppler/doppler-mpi.so" ] && mpi=doppler-mpi
    audio=
    [ -e "$lib/doppler/doppler-audio.so" ] && audio=doppler-audio
    for package in doppler doppler-compiler libdoppler0 libdopplerc0 libdoppler-dev python3-doppler $mpi $audio; do
        check "$package: unpacks" sh -c 'dpkg-deb -x packages/"$1"_*.deb root' sh "$package"
        check "$package: its licence" cmp "$SRC/LICENSE" "root/usr/share/doc/$package/copyright"
    done
    check "they have what is installed" diff \
        <(cd "$prefix" && find . -type f -o -type l | grep -v '^./share/doc' | sort) \
        <(cd root/usr && find . -type f -o -type l | grep -v '^./share/doc' | sort)
    check "the documents are in the package" cmp "$SRC/docs/manual.md" root/usr/share/doc/doppler/docs/manual.md
    check "the programs need the library of their release" sh -c \
        'dpkg-deb -f packages/doppler_*.deb Depends | grep -qF "libdoppler0 (= $(dpkg-deb -f packages/libdoppler0_*.deb Version))"'
    check "doppler names the libraries it needs, and no compiler" sh -c \
        'dpkg-deb -f packages/doppler_*.deb Depends | grep libvulkan1 | grep -qvE "shaderc|spirv"'
    check "the compiler's library names its own" sh -c 'dpkg-deb -f packages/libdopplerc0_*.deb Depends | grep -q "libyaml"'
    check "the Python package needs the library of its release" sh -c \
        'dpkg-deb -f packages/python3-doppler_*.deb Depends | grep -qF "libdoppler0 (= $(dpkg-deb -f packages/libdoppler0_*.deb Version))"'
    if command -v python3 >/dev/null && python3 -c 'import ctypes' 2>/dev/null; then
        check "and finds it" env PYTHONPATH=root/usr/lib/python3/dist-packages python3 -c \
            'import doppler; assert doppler.read_plan("build.plan").n_layers > 0'
    fi
    check "a packaged compiler" root/usr/bin/dopplerc "$model" -o packaged.plan --quiet
    check "makes the same plan" cmp build.plan packaged.plan
fi

# ---- a compiler that changes: no plan of the one before is used -----------------------------------------------------
cached() { # runs the model; prints how many plans are kept
    "$prefix/bin/doppler-exec" "$model" --ctx 64 --chunks 8 --target lavapipe --tokens 1 -n 1 --quiet --cache-dir "$WORK/kept" >/dev/null
    find "$WORK/kept/plans" -name '*.plan' | wc -l
}
check "a model is compiled once" [ "$(cached) $(cached)" = "1 1" ]
echo '// another text' >>moved/share/doppler/glsl/common.glsl
check "again with another template" [ "$(cached) $(cached)" = "2 2" ]
printf x >>"$lib/libdopplerc.so.0" # a byte after what is loaded
check "and with another compiler" [ "$(cached) $(cached)" = "3 3" ]

find moved/share/doppler/glsl -type f | while read -r template; do
    echo '#error "a template of the installation"' >"$template"
done
if "$installed" "$model" -o broken.plan --quiet >broken.log 2>&1; then
    fail "uses the installed templates" "broken ones made no difference"
else
    pass "uses the installed templates"
fi
[ ! -e broken.plan ] && pass "a failure leaves no plan" || fail "a failure leaves no plan"
finish
