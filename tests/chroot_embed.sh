# The example in a bare chroot: a Debian of nothing but compilers, what libdoppler is linked with, a Vulkan driver, and the
# installed Doppler.  Made of the packages that are installed here, so that it needs no network; needs root.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_chroot.sh"
build=$(dirname "$DOPPLERC")
root=$WORK/root
if ! can_chroot; then
    skip "a bare chroot" "needs root and a Debian"
    finish
    exit
fi
packages="bash dash libc-bin coreutils findutils grep sed diffutils gcc g++
    libc6-dev make cmake pkgconf libvulkan-dev libjansson-dev libpcre2-dev
    libutf8proc-dev libxxhash-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libwebp-dev mesa-vulkan-drivers"
ldd "$EXEC" | grep -q libmpi && packages+=" libopenmpi3" # plans in parts
ldd "$EXEC" | grep -q libyaml && packages+=" libyaml-0-2" # lists of models

# shellcheck disable=SC2086 # words
bare_root "$root" $packages
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/root LC_ALL=C.UTF-8 "$@"; }
check "a bare chroot" inside ldconfig
check "installs" cmake --install "$build" --prefix "$root/usr/local"
cp -r "$SRC/examples/embed" "$root/embed"
check "a plan" "$root/usr/local/bin/dopplerc" "$SRC/examples/shakespeare-gemma3" -o "$root/demo.plan" --ctx 64 --chunks 8 \
    --sequences 2 --target lavapipe --quiet
inside ldconfig
check "the example configures" inside cmake -S /embed -B /built
check "the example builds, in C and C++" inside cmake --build /built
check "with pkg-config too" inside sh -c \
    'PKG_CONFIG_PATH=$(dirname "$(find /usr/local -name doppler.pc)") && export PKG_CONFIG_PATH &&
     cc /embed/write.c -o /write $(pkg-config --cflags --libs doppler)'
"$EXEC" "$root/demo.plan" -p "ROMEO:" -n 24 --temp 0 --quiet >want
check "the example in C" inside sh -c '/write /demo.plan ROMEO: 12 /kept.bin >/written'
check "writes what doppler-exec writes" sh -c \
    '{ sed -n "/^greedy:/,\$p" root/written | sed "s/^greedy://; s/^[0-9]* tokens restored:/@/" |
       tr -d "\n" | tr -d "@"; } >got && tr -d "\n" <want | cmp - got'
check "the example in C++" inside sh -c '/built/together /demo.plan 24 ROMEO: JULIET: >/both'
check "each text as if it were alone" sh -c \
    'sed -n "2,/^---/p" root/both | sed "/^---/d" | tr -d "\n" >got && tr -d "\n" <want | cmp - got'
check "and the program" inside sh -c '/usr/local/bin/doppler-exec /demo.plan -p ROMEO: -n 24 --temp 0 --quiet >/said'
check "says the same" cmp want "$root/said"
rm -rf "$root"
finish
