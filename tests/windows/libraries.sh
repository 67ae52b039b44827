#!/bin/bash
# usage: tests/windows/libraries.sh FOLDER [runtime]
# Builds the libraries that Doppler needs for 64-bit Windows from the source packages of Debian 12 into FOLDER, as static libraries, for
# tests/windows/toolchain.cmake.  Needs gcc-mingw-w64-x86-64-posix, g++-mingw-w64-x86-64-posix, libz-mingw-w64-dev, mingw-w64-tools,
# dpkg-dev, spirv-headers, libvulkan-dev, cmake, ninja-build, python3, perl, make, and a mirror of Debian's sources: nothing of it
# happens when Doppler is built.  runtime: only what a build with DOPPLER_COMPILER=OFF needs, in C and in two minutes; the shader
# compiler takes most of the time.  FOLDER/src keeps the sources and FOLDER/build what was made of them; a library that is
# already there is left as it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || [ "$*" = "${1:-} runtime" ] || { sed -n 2p "$0" >&2; exit 2; }
mkdir -p "$1" && cd "$1"
prefix=$PWD
jobs=${JOBS:-2}
mkdir -p src build lib/pkgconfig include

# The newest source package of a name, unpacked without its state on this machine's apt.
sources()
{
    mkdir -p apt/parts apt/lists/partial apt/cache
    cat >apt/parts/source.sources <<END
Types: deb-src
URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
    cat >apt/apt.conf <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$prefix/apt/parts";
Dir::State::Lists "$prefix/apt/lists";
Dir::Cache "$prefix/apt/cache";
APT::Sandbox::User "root";
END
    export APT_CONFIG=$prefix/apt/apt.conf
    ls apt/lists/*Sources* >/dev/null 2>&1 || apt-get update -qq
    (cd src && apt-get source -qq "$@" >/dev/null)
    unset APT_CONFIG
}

# library PACKAGE FOLDER ARCHIVE OPTION...: configured in FOLDER of a package with CMake, built and installed; with targets in $built these
# are built only, and copied with the package's headers.
library()
{
    local package=$1 from=$2 archive=$3
    shift 3
    [ ! -e "lib/$archive" ] || return 0
    compgen -G "src/$package-*/" >/dev/null || sources "$package"
    echo "$package"
    cmake -S "$(echo src/"$package"-*/)$from" -B "build/$package" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" -DDOPPLER_WINDOWS_LIBRARIES="$prefix" -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF "$@" >"build/$package.log" 2>&1 &&
        cmake --build "build/$package" -j "$jobs" ${built:+--target $built} >>"build/$package.log" 2>&1 &&
        if [ -z "${built:-}" ]; then
            cmake --install "build/$package" >>"build/$package.log" 2>&1
        else
            find "build/$package" -name '*.a' -exec cp {} lib/ \; &&
                if compgen -G "src/$package-*/include" >/dev/null; then cp -r src/"$package"-*/include/* include/; fi
        fi ||
        { tail -20 "build/$package.log"; exit 1; }
}

# pkgconfig NAME LIBS [CFLAGS]: for a library whose package writes no file for pkg-config.
pkgconfig()
{
    [ -e "lib/pkgconfig/$1.pc" ] || cat >"lib/pkgconfig/$1.pc" <<END
Name: $1
Description: $1
Version: 1
Libs: -L$prefix/lib $2
Cflags: -I$prefix/include ${3:-}
END
}

# Shared, because objects cross between program and libraries, whose tables have a random seed for each copy of the library.
library jansson "" libjansson.dll.a -DJANSSON_BUILD_SHARED_LIBS=ON -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
library libyaml "" libyaml.a -DBUILD_TESTING=OFF
pkgconfig yaml-0.1 -lyaml -DYAML_DECLARE_STATIC
library xxhash cmake_unofficial libxxhash.a -DXXHASH_BUILD_XXHSUM=OFF
library utf8proc "" libutf8proc.a
pkgconfig libutf8proc -lutf8proc -DUTF8PROC_STATIC
library pcre2 "" libpcre2-8.a -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_SUPPORT_JIT=ON
grep -q '^#define PCRE2_STATIC' include/pcre2.h ||
    sed -i '1i #define PCRE2_STATIC' include/pcre2.h include/pcre2posix.h
library libpng1.6 "" libpng.a -DPNG_SHARED=OFF -DPNG_TESTS=OFF
library libjpeg-turbo "" libjpeg.a -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_SIMD=OFF
no_programs=()
for name in ANIM_UTILS CWEBP DWEBP GIF2WEBP IMG2WEBP VWEBP WEBPINFO WEBPMUX EXTRAS; do
    no_programs+=("-DWEBP_BUILD_$name=OFF")
done
library libwebp "" libwebp.a "${no_programs[@]}"
# Vulkan's loader comes with drivers (vulkan-1.dll): its names are enough to link with it.
if [ ! -e lib/libvulkan-1.a ]; then
    cp -r /usr/include/vulkan /usr/include/vk_video include/
    { printf 'LIBRARY vulkan-1.dll\nEXPORTS\n' && grep -ohE 'VKAPI_CALL vk[A-Za-z0-9]+\(' include/vulkan/vulkan_core.h |
        grep -oE 'vk[A-Za-z0-9]+' | grep -E '[a-z0-9](KHR)?$'; } >build/vulkan-1.def
    x86_64-w64-mingw32-dlltool -d build/vulkan-1.def -l lib/libvulkan-1.a
fi
pkgconfig vulkan -lvulkan-1
if [ "${2:-}" = runtime ]; then
    echo "libraries of the runtime for Windows: $prefix"
    exit 0
fi
cp -r /usr/include/spirv include/ # by itself: /usr/include has headers of this system
built="SPIRV-Tools-static SPIRV-Tools-opt" library spirv-tools "" libSPIRV-Tools-opt.a -DSPIRV-Headers_SOURCE_DIR="$prefix" \
    -DSPIRV_SKIP_EXECUTABLES=ON -DSPIRV_SKIP_TESTS=ON -DSPIRV_WERROR=OFF
library glslang "" libglslang.a -DENABLE_GLSLANG_BINARIES=OFF -DENABLE_CTEST=OFF -DENABLE_HLSL=ON

# shaderc with these two from beside it, as Debian builds it; its two libraries are one here, as in Debian's package.
if [ ! -e lib/libshaderc_combined.a ]; then
    compgen -G "src/shaderc-*/" >/dev/null || sources shaderc
    mkdir -p build/shaderc
    printf '"shaderc"\n' >build/shaderc/build-version.inc
    built="shaderc_static shaderc_util" library shaderc "" libshaderc_parts.a -DSHADERC_SKIP_TESTS=ON -DSHADERC_SKIP_EXAMPLES=ON \
        -DSHADERC_SKIP_COPYRIGHT_CHECK=ON -Dglslang_SOURCE_DIR="$prefix/include/glslang" -DCMAKE_CXX_FLAGS="-I$prefix/include"
    cp -r src/shaderc-*/libshaderc/include/shaderc include/
    x86_64-w64-mingw32-ar -M <<END
CREATE lib/libshaderc_combined.a
ADDLIB lib/libshaderc_static.a
ADDLIB lib/libshaderc_util.a
SAVE
END
fi

# Of OpenSSL only digests are needed.
left_out="engine legacy dso async ssl tls dtls dh dsa ec cms ct ocsp ts srp sock aria bf camellia cast chacha poly1305 des idea md4 mdc2"
left_out+=" rc2 rc4 rmd160 seed siphash sm2 sm3 sm4 whirlpool blake2 scrypt gost module autoload-config cmp ui-console stdio tests shared"
if [ ! -e lib/libcrypto.a ]; then
    compgen -G "src/openssl-*/" >/dev/null || sources openssl
    echo openssl
    mkdir -p build/openssl
    (cd build/openssl &&
        perl "$(echo "$prefix"/src/openssl-*/Configure)" mingw64 --prefix="$prefix" --libdir=lib \
            CC="$(command -v ccache || true) x86_64-w64-mingw32-gcc-posix" AR=x86_64-w64-mingw32-ar RANLIB=x86_64-w64-mingw32-ranlib \
            RC=x86_64-w64-mingw32-windres $(printf 'no-%s ' $left_out) &&
        make -s -j "$jobs" build_generated && make -s -j "$jobs" libcrypto.a) >build/openssl.log 2>&1 ||
        { tail -20 build/openssl.log; exit 1; }
    cp build/openssl/libcrypto.a lib/
    cp -r build/openssl/include/openssl src/openssl-*/include/openssl include/
fi
pkgconfig libcrypto "-lcrypto -lws2_32 -lcrypt32 -lbcrypt"

echo "libraries for Windows: $prefix"
