# Bare roots to change to, made of the packages that are installed here, so that they need no network; needs root.  Sourced.

can_chroot() { [ "$(id -u)" -eq 0 ] && command -v chroot >/dev/null && command -v apt-cache >/dev/null; }

# bare_root ROOT PACKAGE...: the files of the packages and of all they depend on, as they are here.
bare_root() {
    local root=$1
    shift
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances "$@" 2>/dev/null | sed 's/^[ |]*//' | grep -E '^[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?$' | sort -u >closure
    xargs dpkg-query -L <closure 2>/dev/null | grep '^/' | grep -vE '^/(dev|proc|sys|usr/share/(doc|man|locale|info))(/|$)' |
        sort -u >files
    find /usr/bin -lname '/etc/alternatives/*' >>files
    find /etc/alternatives >>files
    mkdir -p "$root"/usr/bin "$root"/usr/sbin "$root"/usr/lib "$root"/usr/lib64 "$root"/dev "$root"/tmp "$root"/proc
    for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
    tar -C / --no-recursion --ignore-failed-read -cf - -T <(sed 's|^/||' files) 2>/dev/null |
        tar -C "$root" --keep-directory-symlink -xf - 2>tar.log
    mknod -m 666 "$root/dev/null" c 1 3 2>/dev/null || cp /dev/null "$root/dev/null"
    mknod -m 444 "$root/dev/urandom" c 1 9 2>/dev/null || true
}
