# Roots of other systems, which are made once and kept, and their rows of the table in docs/platforms.md (table.sh).  Sourced after
# lib.sh and lib_chroot.sh.

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs:|deb)( \[[^]]*\])? *(https?:[^ ]*debian\.org[^ ]*).*/\3/p' | grep -v security | head -n 1)

# make_root SUITE ROOT: Debian's smallest system of the suite, with this tree in /src; skips the test where that cannot be had.
make_root() {
    if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null || ! command -v unshare >/dev/null || [ -z "$mirror" ]; then
        skip "a root of $1" "needs root, debootstrap and a mirror"
        finish
        exit
    fi
    if [ ! -e "$2/.made" ]; then
        rm -rf "$2"
        mkdir -p "$2"
        if ! debootstrap --variant=minbase "$1" "$2" "$mirror" >debootstrap.log 2>&1; then
            skip "a root of $1" "debootstrap: $(tail -n 1 debootstrap.log)"
            finish
            exit
        fi
        # A mirror of sid may be some weeks old.
        echo 'Acquire::Check-Valid-Until "false";' >"$2/etc/apt/apt.conf.d/90valid"
        cp /etc/resolv.conf "$2/etc/" 2>/dev/null
        touch "$2/.made"
    fi
    root=$2
    rm -rf "$root/src"
    mkdir -p "$root/src"
    (cd "$SRC" && tar -cf - --exclude='./build*' --exclude=./.git .) | tar -C "$root/src" -xf -
}

# inside [NAME=VALUE...] COMMAND...: runs it in $root, with /proc and /dev of its own.
inside() {
    unshare --mount -- sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /usr/bin/env -i \
        PATH=/usr/lib/ccache:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
        "$root" "$@"
}

# row NAME QUICKSTART TESTS PACKAGE: the row of a system.
row() {
    printf '| %s | %s | %s | %s |\n' "$@" >"$rows/$(echo "$1" | tr -c 'a-zA-Z0-9\n' _).row"
}
