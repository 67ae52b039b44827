# Doppler in another Debian: README's two commands and the packages.   debian.sh ... FOLDER SUITE NAME [gcc13 | ubuntu_flags]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_chroot.sh"
. "$(dirname "$0")/lib_systems.sh"
folder=$1 suite=$2 name=$3 how=${4:-}
rows=$folder/rows
mkdir -p "$rows"
make_root "$suite" "$folder/$suite"
compilers=() flags=()
inside apt-get -qq update >/dev/null 2>&1
inside apt-get -qq install --no-install-recommends ccache ca-certificates >/dev/null 2>&1
case $how in
gcc13)
    check "gcc 13" inside apt-get -qq install --no-install-recommends gcc-13 g++-13
    compilers=(CC=gcc-13 CXX=g++-13)
    ;;
ubuntu_flags) # those of Ubuntu 24.04's dpkg-buildflags, and what its gcc does without being asked
    flags=("CFLAGS=-g -O2 -fno-omit-frame-pointer -flto=auto -ffat-lto-objects -fstack-protector-strong -fstack-clash-protection \
-fcf-protection -Wformat -Werror=format-security -D_FORTIFY_SOURCE=3" "LDFLAGS=-Wl,-Bsymbolic-functions -flto=auto -Wl,-z,relro -Wl,-z,now")
    ;;
esac

quickstart=no tests=no package=no
if check "examples/quickstart.sh" inside "${compilers[@]}" "${flags[@]}" sh -c 'cd /src && ./examples/quickstart.sh >/said'; then
    check "it prints verse" [ "$(wc -c <"$root/said")" -gt 200 ] && quickstart=yes
    warnings=$(grep -c 'warning:' "$root/src/build/quickstart.log")
    check "without a warning" [ "$warnings" = 0 ] || quickstart="yes, $warnings warnings"
fi

# A hundred tests: all units, the passes, models in both programs, messages, and what an installation must have.
hundred='^(unit\.test_[a-z0-9_]*|passes\.[a-z]*|golden\.(llama|gemma3|gpt2|demo)|errors\.(options|models)|check\.(configure|install))$'
if [ -z "$how" ]; then
    inside bash -c 'cd /src && . tests/lib_packages.sh && install_packages build driver test' >packages.log 2>&1
    status=0
    inside "${compilers[@]}" "${flags[@]}" sh -c "cd /src && tests/run.sh --quick --filter '$hundred'" >tests.log 2>&1 || status=$?
    tail -n 1 tests.log
    n=$(grep -c '<testcase' "$root/src/build-test/release.xml" 2>/dev/null)
    bad=$(grep -c '<failure' "$root/src/build-test/release.xml" 2>/dev/null)
    check "a hundred tests run" [ "${n:-0}" -ge 100 ]
    check "tests/run.sh" [ "$status" = 0 ] || grep -E '^FAILED|\*\*\*' tests.log | head -n 20
    tests="$((${n:-0} - ${bad:-0})) of ${n:-0}"
else
    tests="-"
fi

if check "all is built" inside "${compilers[@]}" "${flags[@]}" sh -c 'cmake --build /src/build' &&
    check "packages" inside sh -c 'apt-get -qq install --no-install-recommends dpkg-dev file && cd /src/build && cpack -B /packages'; then
    check "they install" inside sh -c 'cd /packages && apt-get -qq install --no-install-recommends ./doppler_*.deb ./doppler-compiler_*.deb \
        ./libdoppler0_*.deb ./libdopplerc0_*.deb' &&
        check "and run the demo" inside sh -c 'cd / && /usr/bin/dopplerc /src/examples/shakespeare-gemma3 -o demo.plan --quiet &&
            /usr/bin/doppler-exec demo.plan -p ROMEO: -n 24 --temp 0 --quiet' && package=yes
    inside apt-get -qq remove doppler doppler-compiler libdoppler0 libdopplerc0 >/dev/null 2>&1
fi
row "$name" "$quickstart" "$tests" "$package"
finish
