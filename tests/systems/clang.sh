# Release builds by clang, and of the preset minimal, here; a compile of the runtime by musl-gcc where that is installed.
#   clang.sh ... FOLDER
. "$(dirname "$0")/../lib.sh"
mkdir -p "$1"
check "clang: Release without a warning" sh -c 'cmake -S "$1" -B "$2/clang" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_TESTING=OFF -DDOPPLER_WERROR=ON && cmake --build "$2/clang"' sh "$SRC" "$1"
"$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o here.plan --ctx 64 --chunks 8 --target lavapipe --quiet
check "its compiler makes the same plan" sh -c '"$1/clang/dopplerc" "$2/examples/shakespeare-gemma3" -o clang.plan --ctx 64 --chunks 8 \
    --target lavapipe --quiet && cmp clang.plan here.plan' sh "$1" "$SRC"
check "the preset minimal" sh -c 'cd "$1" && cmake --preset minimal -B "$2/minimal" && cmake --build "$2/minimal"' sh "$SRC" "$1"
ask=(-p ROMEO: -n 24 --temp 0 --quiet)
check "runs a plan" diff <("$1/minimal/doppler-exec" here.plan "${ask[@]}") <("$EXEC" here.plan "${ask[@]}")
printf '\x89PNG\r\n\x1a\n' >x.png
check_fails "and says what it lacks" 2 "--serve: this doppler-exec was built without the server" "$1/minimal/doppler-exec" here.plan --serve 1
if command -v musl-gcc >/dev/null; then
    # Headers of the libraries that are here; they are linked nowhere.
    mkdir -p headers
    for name in vulkan vk_video webp openssl curl editline jansson.h jansson_config.h xxhash.h xxh3.h utf8proc.h pcre2.h png.h pngconf.h \
        pnglibconf.h jpeglib.h jmorecfg.h jconfig.h jerror.h yaml.h zlib.h zconf.h histedit.h; do
        find -L /usr/include -maxdepth 2 -name "$name" -exec cp -rL {} headers/ \; -quit 2>/dev/null
    done
    find "$SRC/base" "$SRC/runtime" -name '*.c' ! -path '*/windows/*' ! -path '*/mpi/*' ! -path '*/audio/*' ! -path '*/fetch/*' >files
    check "musl compiles the runtime" xargs -P 2 -n 1 musl-gcc -std=c11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Werror -I"$SRC" \
        -I"$SRC/include" -I"$SRC/include" -I"$SRC/include" -Iheaders -DDOP_GLSL_INSTALL_REL='"x"' -DDOP_SHADERC_FILE='""' <files
else
    skip "musl" "musl-tools is not installed"
fi
finish
