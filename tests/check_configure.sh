# What configuring says about the system, missing libraries, options and presets.  Nothing is built.
. "$(dirname "$0")/lib.sh"
configure() { cmake -S "$SRC" -B tree -G Ninja -DBUILD_TESTING=OFF "$@" >said 2>&1; }
# refused NAME TEXT CMAKE_ARGUMENT...: configuring fails and says TEXT, wherever it breaks lines.
refused() {
    local name=$1 text=$2
    shift 2
    rm -rf tree
    if configure "$@"; then
        fail "$name" "it was configured"
    elif tr -s ' \n' ' ' <said | grep -qF -e "$text"; then
        pass "$name"
    else
        fail "$name" "it does not say: $text"
        tail -n 20 said
    fi
}
# Compilers of other systems need no libraries of theirs: they are refused before.
other=(-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON)
if echo 'int x;' | cc -m32 -xc -c - -o 32.o 2>/dev/null; then
    refused "32 bits" "needs a 64-bit system" "${other[@]}" -DCMAKE_C_FLAGS=-m32
else
    skip "32 bits" "the compiler here makes no such code"
fi
if echo 'int x;' | clang --target=aarch64_be-linux-gnu -xc -c - -o big.o 2>/dev/null; then
    refused "big-endian" "needs a little-endian system" "${other[@]}" -DCMAKE_C_COMPILER=clang \
        -DCMAKE_C_FLAGS=--target=aarch64_be-linux-gnu
else
    skip "big-endian" "no clang for it"
fi

# ---- libraries --------------------------------------------------------------------------------------------------------
mkdir all
for folder in $(pkg-config --variable pc_path pkg-config | tr ':' ' '); do cp "$folder"/*.pc all/ 2>/dev/null; done
export PKG_CONFIG_LIBDIR=$WORK/some
without() { # NAME...: from now on these are not found
    rm -rf some
    cp -r all some
    local name
    for name in "$@"; do rm -f some/"$name".pc; done
}
without vulkan
refused "a library that everything needs" "does not find vulkan: install the library (tests/packages.txt names Debian's package)"
without libpng libjpeg
install="install the library (tests/packages.txt names Debian's package)"
refused "libraries of pictures" "does not find libpng, libjpeg: $install, or leave it out with -DDOPPLER_MEDIA=OFF"
without libcrypto
refused "what digests need" "does not find libcrypto: $install, or leave it out with -DDOPPLER_COMPILER=OFF"
without libedit
refused "an optional library that is asked for" "or leave it out with -DDOPPLER_EDIT=OFF" -DDOPPLER_EDIT=ON
without nothing
refused "the shader compiler" "or leave the compiler out with -DDOPPLER_COMPILER=OFF" -DSHADERC_LIBRARY=
without libedit libcurl sndfile
rm -rf tree
check "optional libraries may be missing" configure
for line in "DOPPLER_EDIT is off (line editing in doppler-exec -i): pkg-config does not find all of libedit" \
    "DOPPLER_FETCH is off (the plugin that downloads models, -hf): pkg-config does not find all of libcurl, libcrypto" \
    "DOPPLER_AUDIO is off (the plugin that reads audio): pkg-config does not find all of sndfile, samplerate, kissfft-float"; do
    check "one line: ${line%% *}" grep -qxF -e "-- $line" said
done
check "warnings are no errors" sh -c '! grep -q -- -Werror tree/compile_commands.json'
check "with DOPPLER_WERROR they are" sh -c '"$@" && grep -q -- -Werror tree/compile_commands.json' sh cmake tree -DDOPPLER_WERROR=ON
without libpng libjpeg libwebp libwebpdemux libcrypto libedit libcurl sndfile
rm -rf tree
check "the preset minimal" sh -c 'cd "$1" && cmake --preset minimal -B "$2/tree"' sh "$SRC" "$WORK"
left_out='/lib(png|jpeg|webp|curl|edit|shaderc|crypto|sndfile|mpi)[^a-z]'
check "needs no library but those of a runtime" sh -c '! grep -E "LINK_LIBRARIES.*$1" tree/build.ninja' sh "$left_out"
for preset in release debug sanitize validation; do
    check "the preset $preset exists" sh -c 'cd "$1" && cmake --list-presets | grep -qE "^ *\"$2\""' sh "$SRC" $preset
done
unset PKG_CONFIG_LIBDIR
rm -rf tree
if pkg-config --exists libcurl libcrypto; then
    check "downloads without a compiler" configure -DDOPPLER_COMPILER=OFF
    check "link libcrypto" sh -c 'sed -n "/^build doppler-fetch.so/,/^$/p" tree/build.ninja | grep LINK_LIBRARIES | grep -q crypto'
fi
rm -rf tree all some
finish
