#!/bin/bash
# Compares what two builds of dopplerc make of the same models: plans and printed GLSL.  A change that only moves or rewrites code
# must not change either.
#
#   tests/compare_builds.sh OLD_BUILD NEW_BUILD [PATTERN [TARGET...]]
#
# OLD_BUILD, NEW_BUILD  build folders (cmake -B) whose dopplerc are compared
# PATTERN               shell pattern of model folders to take (default: all)
# TARGET...             targets to compile for (default: tier3 lavapipe nvidia-hopper)
#
# Models are the golden ones of this checkout (tests/golden) and those of ../shared/golden/hf where that folder exists.  For each
# model and target, all sections of the plans must have equal bytes, except for the card, which says how the plan was made: it has
# digests of the compiler, which change with a comment.  GLSL (--emit glsl) must be equal without comments.  A model that both builds
# refuse with the same message counts as equal.
# Prints one line for each difference and a summary; exits with 1 if there is a difference.
set -u
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 2; }
old=$(realpath "$1") new=$(realpath "$2") pattern=${3:-*}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- tier3 lavapipe nvidia-hopper
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/old" "$work/new"

cat >"$work/compare.py" <<'end_py'
import struct, sys


def sections(path):
    """The sections of a plan but the card, which says how the plan was made (plan/plan_format.h)."""
    data = open(path, "rb").read()
    assert data[:8] == b"DOPPLAN\n", path
    rows = [struct.unpack_from("<IIQQ", data, 32 + 32 * k) for k in range(struct.unpack_from("<I", data, 12)[0])]
    return {kind: data[offset:offset + size] for kind, _, offset, size in rows if kind != 3}


sys.exit(0 if sections(sys.argv[1]) == sections(sys.argv[2]) else 1)
end_py

compiler() { # BUILD: the dopplerc that keeps compiled shaders where the tests are built, otherwise the installed kind
    [ -x "$1/tests/tools/as_written/dopplerc" ] && echo "$1/tests/tools/as_written/dopplerc" || echo "$1/dopplerc"
}
make_one() { # BUILD FOLDER MODEL TARGET
    local status=0
    "$(compiler "$1")" "$3" --target "$4" -o "$2/plan" --quiet >"$2/log" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        "$(compiler "$1")" "$3" --target "$4" --emit glsl --quiet 2>>"$2/log" |
            sed -E 's,/\*[^*]*\*/,,g; s,(^|[ ;{}])//.*,\1,; s, *\\?$,,; /^$/d' >"$2/glsl"
    fi
    echo $status >"$2/status"
}

equal=0 different=0 refused=0
for model in "$root"/tests/golden/$pattern/ "$root"/../shared/golden/hf/$pattern/; do
    [ -f "$model/config.json" ] || continue
    own=$root/tests/golden/$(basename "$model")
    [ "$own/" = "$model" ] || ! cmp -s "$own/model.safetensors" "$model/model.safetensors" || continue # it has been compared
    for target in "$@"; do
        rm -f "$work"/old/* "$work"/new/*
        make_one "$old" "$work/old" "$model" "$target" &
        make_one "$new" "$work/new" "$model" "$target"
        wait $!
        what="$(basename "$model") for $target"
        if ! cmp -s "$work/old/status" "$work/new/status" || ! cmp -s "$work/old/log" "$work/new/log"; then
            echo "$what: messages differ: $(head -n 1 "$work/old/log") | $(head -n 1 "$work/new/log")"
        elif [ "$(cat "$work/old/status")" -ne 0 ]; then
            refused=$((refused + 1))
            continue
        elif ! python3 "$work/compare.py" "$work/old/plan" "$work/new/plan"; then
            echo "$what: plans differ"
        elif ! cmp -s "$work/old/glsl" "$work/new/glsl"; then
            echo "$what: GLSL differs: $(diff "$work/old/glsl" "$work/new/glsl" | sed -n 2p)"
        else
            equal=$((equal + 1))
            continue
        fi
        different=$((different + 1))
    done
done
echo "$equal equal, $different different, $refused refused by both"
[ $different -eq 0 ] && [ $equal -gt 0 ]
