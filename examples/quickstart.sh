#!/usr/bin/env bash
# From a fresh checkout to generated verse: installs what is missing (apt: Debian 12 and 13, Ubuntu 24.04), builds into build/, compiles the
# demo model, runs it.  Safe to run again; the second run only does what changed.
#
#   examples/quickstart.sh [PROMPT]
set -eu

cd "$(dirname "$0")/.."
prompt=${1:-ROMEO:}
model=examples/shakespeare-gemma3
plan=build/shakespeare.plan

step() {
    printf '\n\033[1m%s\033[0m\n' "$*" >&2
}
[ -t 2 ] || step() { printf '\n%s\n' "$*" >&2; }

. tests/lib_packages.sh
step "1. Packages"
install_packages build
# A GPU with its driver will do; without one, Mesa's software driver (lavapipe) runs Vulkan on the processor.
if ! { compgen -G '/dev/dri/renderD*' || compgen -G '/dev/nvidia[0-9]*'; } >/dev/null ||
    ! { compgen -G '/usr/share/vulkan/icd.d/*.json' || compgen -G '/etc/vulkan/icd.d/*.json'; } >/dev/null; then
    install_packages driver
fi

step "2. Build"
mkdir -p build
configure=(cmake -S . -B build)
[ -f build/CMakeCache.txt ] || configure+=(-G Ninja -DBUILD_TESTING=OFF)
if ! "${configure[@]}" >build/quickstart.log 2>&1 ||
    ! cmake --build build -j "$(nproc)" --target dopplerc doppler-exec >>build/quickstart.log 2>&1; then
    tail -n 30 build/quickstart.log >&2
    echo "error: the build failed; all of its output is in build/quickstart.log" >&2
    exit 1
fi

step "3. Compile the model:  dopplerc $model -o $plan"
if [ ! "$plan" -nt build/dopplerc ] || [ -n "$(find "$model" -newer "$plan" -type f)" ]; then
    build/dopplerc "$model" -o "$plan"
fi

step "4. Run it:  doppler-exec $plan -p '$prompt' -n 200 --temp 0.8 --top-p 0.9 -s 2"
build/doppler-exec "$plan" -p "$prompt" -n 200 --temp 0.8 --top-p 0.9 -s 2
echo
