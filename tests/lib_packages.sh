# Installs packages by the groups of tests/packages.txt (Debian 12, Debian 13, Ubuntu 24.04).  Sourced by tests/run.sh,
# examples/quickstart.sh and examples/serve/Containerfile.

packages_list=$(dirname "${BASH_SOURCE[0]}")/packages.txt

# package_entries GROUP...: the entries of the groups, one per line: "!" or "?" (optional), then the names separated by spaces.
package_entries() {
    awk -v groups=" $* " '{ sub(/#.*/, ""); gsub(/\|/, " "); group = $1; mark = sub(/\?$/, "", group) ? "?" : "!"
        if (index(groups, " " group " ")) { $1 = mark; print } }' "$packages_list"
}

# package_choice NAME...: the first name that is installed, otherwise the first that can be, otherwise nothing.
package_choice() {
    local name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed && echo "$name" && return
    done
    for name in "$@"; do
        apt-cache policy "$name" 2>/dev/null | grep -q '^  Candidate: [^(]' && echo "$name" && return
    done
}

# package_names GROUP...: one name for each entry of the groups that is installed or can be.
package_names() {
    local mark names
    package_entries "$@" | while read -r mark names; do
        # shellcheck disable=SC2086 # words
        package_choice $names
    done
}

# missing_packages GROUP...: the names to install.  A required entry without any is named as it is in the list, so that apt-get
# says that it does not exist; an optional one is left out.
missing_packages() {
    local mark names name
    package_entries "$@" | while read -r mark names; do
        # shellcheck disable=SC2086 # words
        name=$(package_choice $names)
        if [ -z "$name" ]; then
            [ "$mark" = '?' ] || echo "${names%% *}"
        elif ! dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed; then
            echo "$name"
        fi
    done
}

# install_packages GROUP...: installs what is missing, with sudo when not root; does nothing (and needs no network)
# when all of it is there.
install_packages() {
    local missing sudo=() mark names
    # shellcheck disable=SC2207 # words; a bare chroot has no /dev/fd for mapfile
    missing=($(missing_packages "$@"))
    [ "${#missing[@]}" -eq 0 ] && return 0

    if ! command -v apt-get >/dev/null; then
        echo "error: these packages are needed (names of Debian): ${missing[*]}" >&2
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "error: not root and no sudo; run as root: apt-get install ${missing[*]}" >&2
            return 1
        fi
        sudo=(sudo)
    fi
    local log
    log=$(mktemp)
    if "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1; then
        # shellcheck disable=SC2207
        missing=($(missing_packages "$@")) # the lists of packages are new
        echo "installing ${#missing[@]} packages: ${missing[*]}"
        package_entries "$@" | while read -r mark names; do
            # shellcheck disable=SC2086
            [ -n "$(package_choice $names)" ] || echo "note: no package ${names// / or } here: what uses it is left out"
        done
        if "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
    fi
    tail -n 30 "$log" >&2
    rm -f "$log"
    echo "error: apt-get could not install the packages (its last lines are above)" >&2
    return 1
}
