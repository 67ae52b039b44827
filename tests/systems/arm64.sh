# Doppler for arm64: cross-built in a root of this system's suite, and run by qemu.  Plans are those of x86-64, byte for byte.
#   arm64.sh ... FOLDER
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_chroot.sh"
. "$(dirname "$0")/lib_systems.sh"
rows=$1/rows
mkdir -p "$rows"
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
make_root "$suite" "$1/$suite-arm64"
inside dpkg --add-architecture arm64
check "compilers" inside sh -c 'apt-get -qq update && apt-get -qq install --no-install-recommends crossbuild-essential-arm64 qemu-user-static \
    cmake ninja-build pkg-config'
libraries=$(bash -c '. "$0/tests/lib_packages.sh" && package_entries build' "$SRC" |
    awk '$2 ~ /^lib.*-dev$/ && $2 != "libc6-dev" || $2 ~ /^(zlib1g-dev|spirv-tools)$/ { print $2 ":arm64" }')
# shellcheck disable=SC2086 # words
check "libraries" inside apt-get -qq install --no-install-recommends $libraries
cat >"$root/arm64.cmake" <<'TOOLCHAIN'
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
TOOLCHAIN
check "builds with -O3" inside sh -c 'cmake -S /src -B /build -G Ninja --toolchain /arm64.cmake -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_TESTING=OFF -DDOPPLER_MPI=OFF -DDOPPLER_WERROR=ON && cmake --build /build'
arm() { inside qemu-aarch64-static "/build/$1" "${@:2}"; }
for program in dopplerc doppler-exec; do
    check "$program --version" [ "$(arm $program --version | awk 'NR == 1 { print $1 }')" = "$program" ]
done
compiler=$("$DOPPLERC" --version | sed -n 's/^with //p')
quickstart=no
if check "the same shader compiler as here" [ "$(arm dopplerc --version | sed -n 's/^with //p')" = "$compiler" ]; then
    quickstart="plans of x86-64"
    for options in "--target tier1" "--target nvidia-hopper" "--target tier1 --quant q4_k"; do
        # shellcheck disable=SC2086 # words
        check "a plan: $options" arm dopplerc /src/examples/shakespeare-gemma3 -o /arm.plan --ctx 64 --chunks 8 $options --quiet &&
            "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o here.plan --ctx 64 --chunks 8 $options --quiet &&
            check "is that of x86-64" cmp "$root/arm.plan" here.plan || quickstart=no
    done
fi
check "tokenizes as x86-64" diff <(arm doppler-exec /arm.plan --tokenize "Speak, I charge thee: 1603 æ") \
    <("$EXEC" here.plan --tokenize "Speak, I charge thee: 1603 æ")
row "arm64 (cross-built on $suite, qemu)" "$quickstart" "-" "-"
finish
