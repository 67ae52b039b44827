# Installs Debian packages by the groups of tests/packages.txt.  Sourced by tests/run.sh and examples/quickstart.sh.

# install_packages GROUP...: installs what is missing, with sudo when not root; does nothing (and needs no network)
# when all of it is there.
install_packages() {
    local list missing=() sudo=() group package
    list=$(dirname "${BASH_SOURCE[0]}")/packages.txt
    for group in "$@"; do
        # No process substitution: a bare chroot has no /dev/fd.
        for package in $(awk -v group="$group" '$1 == group { print $2 }' "$list"); do
            dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
        done
    done
    [ "${#missing[@]}" -eq 0 ] && return 0

    if ! command -v apt-get >/dev/null; then
        echo "error: these packages are needed (names of Debian 12): ${missing[*]}" >&2
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "error: not root and no sudo; run as root: apt-get install ${missing[*]}" >&2
            return 1
        fi
        sudo=(sudo)
    fi
    echo "installing ${#missing[@]} packages: ${missing[*]}"
    local log
    log=$(mktemp)
    if "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1 &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 30 "$log" >&2
    rm -f "$log"
    echo "error: apt-get could not install the packages (its last lines are above)" >&2
    return 1
}
