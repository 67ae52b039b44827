#!/usr/bin/env bash
# The chat template interpreter against Jinja2 (tests/templates/compare.py): the templates of tests/templates/own, those in
# ../shared where that is there, and those in the folders of models that are given.
#
#   bash tests/check_templates.sh DOPPLERC DOPPLER_EXEC TOOLS WORK [whole] [FOLDER...]
#
# whole: with published ones, out of llama.cpp's repository as an npm package (node-llama-cpp) brings it.
. "$(dirname "$0")/lib.sh"

compare=(/usr/bin/python3 "$SRC/tests/templates/compare.py" "$TOOLS/render" --list)
if ! /usr/bin/python3 -c 'import jinja2' 2>/dev/null; then
    skip "templates" "no python3-jinja2"
    finish
fi
same() { # NAME FOLDER...
    check "$1" "${compare[@]}" "${@:2}"
    tail -n 1 "$WORK/.out"
}
same "our templates" "$SRC/tests/templates/own"
if [ -d "$SHARED/golden/chat_templates" ]; then
    same "templates in shared" "$SHARED/golden/chat_templates"
else
    skip "templates in shared" "no shared data"
fi
if [ "${1:-}" = whole ]; then
    shift
    if timeout 300 npm pack --silent node-llama-cpp >npm.log 2>&1 &&
        tar xzf node-llama-cpp-*.tgz package/llama/gitRelease.bundle && git init --quiet --bare llama.git &&
        git -C llama.git fetch --quiet "$PWD/package/llama/gitRelease.bundle" HEAD; then
        mkdir published
        git -C llama.git archive FETCH_HEAD models/templates | tar x -C published
        same "published templates" published
    else
        skip "published templates" "npm cannot fetch them: $(tail -n 1 npm.log)"
    fi
fi
for folder; do
    same "templates in $folder" "$folder"
done
finish
