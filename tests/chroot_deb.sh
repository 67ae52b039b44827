# The packages in a bare Debian: debootstrap's smallest system, the .deb files and what they say they need, and nothing else.
# Needs root and the package mirror that apt uses here.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$DOPPLERC")
root=$WORK/root
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs:|deb)( \[[^]]*\])? *(https?:[^ ]*debian\.org[^ ]*).*/\3/p' | grep -v security | head -n 1)
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null || ! command -v dpkg-shlibdeps >/dev/null || [ -z "$mirror" ]; then
    skip "a bare Debian" "needs root, debootstrap, dpkg-dev and a mirror"
    finish
    exit
fi
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
check "packages" cpack --config "$build/CPackConfig.cmake" -B packages
if ! debootstrap --variant=minbase bookworm "$root" "$mirror" >debootstrap.log 2>&1; then
    skip "a bare Debian" "debootstrap: $(tail -n 1 debootstrap.log)"
    rm -rf "$root"
    finish
    exit
fi
cp packages/*.deb "$root/tmp/"
check "its packages are listed" inside apt-get update -qq
check "installs" inside sh -c 'cd /tmp && apt-get install -y -qq --no-install-recommends ./doppler_*.deb ./doppler-compiler_*.deb \
    ./libdoppler0_*.deb ./libdopplerc0_*.deb'
check "no compiler came with it" sh -c '! [ -e "$1/usr/bin/gcc" ] && ! [ -e "$1/usr/bin/clang" ]' sh "$root"
check "both programs run" inside sh -c 'dopplerc --version && doppler-exec --version'
check_fails "without a driver it says so" 1 "no Vulkan driver was found: install one (Debian: mesa-vulkan-drivers)" inside doppler-exec --list-devices
check "a driver" inside apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers
cp -r "$SRC/examples/shakespeare-gemma3" "$root/demo"
check "compiles for the device there" inside dopplerc /demo -o /demo.plan --ctx 64 --chunks 8
check "generates" inside sh -c 'doppler-exec /demo.plan -p ROMEO: -n 24 --temp 0 --quiet >/said'
"$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.plan --ctx 64 --chunks 8 --target lavapipe --quiet
"$EXEC" demo.plan -p ROMEO: -n 24 --temp 0 --quiet >want
check "what it generates here" cmp want "$root/said"
for package in doppler doppler-compiler libdoppler0 libdopplerc0; do
    check "$package: its licence" cmp "$SRC/LICENSE" "$root/usr/share/doc/$package/copyright"
done
check "licences of what is linked into the programs" sh -c 'ls "$1"/usr/share/doc/libdopplerc0/copyright.* | grep -q shaderc' sh "$root"
check "goes away" inside apt-get remove -y -qq doppler doppler-compiler libdoppler0 libdopplerc0
check "and leaves nothing" sh -c '! find "$1/usr" -name "*doppler*" | grep .' sh "$root"
rm -rf "$root"
finish
