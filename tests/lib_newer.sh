# Packages of other suites of Debian than the one at hand, unpacked into a folder, and programs that run with the libraries there: for
# tests that try newer drivers and tools than Debian 12's.  Sourced after lib.sh.

# newer SUITE NAME PACKAGE...: unpacks packages and all that they need into the folder NAME beside the tests' tools, once for all tests
# of a build; $NEWER is that folder.  Fails where they cannot be had: without apt, or without the network.
newer() {
    local suite=$1 stamp options work
    NEWER=$TOOLS/newer/$1-$2
    stamp=$NEWER.done
    shift 2
    [ -e "$stamp" ] && return 0
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    work=$WORK/apt-$suite
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$NEWER"
    : >"$work/status" # nothing is installed: what is needed is fetched too
    echo "deb http://deb.debian.org/debian $suite main" >"$work/sources.list"
    options=(-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists"
        -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root -o APT::Install-Recommends=0)
    case $suite in
    *-backports) # additions to a suite, which has the rest
        echo "deb http://deb.debian.org/debian ${suite%-backports} main" >>"$work/sources.list"
        options+=(-o APT::Default-Release="$suite")
        ;;
    esac
    timeout 300 apt-get "${options[@]}" -q update && timeout 900 apt-get "${options[@]}" -q -y -d install "$@" || return 1
    local package
    for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$NEWER" || return 1; done
    rm -r "$work"
    [ -L "$NEWER/lib" ] || [ ! -d "$NEWER/lib" ] || cp -a "$NEWER/lib/." "$NEWER/usr/lib/" # packages of Debian 12 have parts in both
    newer_icds
    touch "$stamp"
}

# Vulkan's descriptions of drivers name them by path.
newer_icds() {
    local libraries file
    libraries=$(newer_libraries)
    for file in "$NEWER"/usr/share/vulkan/icd.d/*.json; do
        [ -e "$file" ] && sed -i "s#\"library_path\": \"[^\"]*/#\"library_path\": \"#; s#\"library_path\": \"#&$libraries/#" "$file"
    done
    return 0
}

newer_libraries() { dirname "$(compgen -G "$NEWER/usr/lib/*/libc.so.6")"; }

# newer_run [--preload FILE] PROGRAM ARGUMENT...: a program with the libraries of $NEWER, its C library too.
newer_run() {
    local libraries preload=()
    libraries=$(newer_libraries)
    [ "$1" = --preload ] && preload=("$1" "$2") && shift 2
    "$(compgen -G "$libraries/ld-linux*.so.*")" "${preload[@]}" --library-path "$libraries:$(dirname "$EXEC"):/usr/lib/${libraries##*/}" "$@"
}
