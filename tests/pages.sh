# The pages of --report and --profile as a browser shows them: labels, pointer, keyboard, narrow windows.
. "$(dirname "$0")/lib.sh"
browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
if ! command -v node >/dev/null || [ -z "$browser" ]; then
    skip "the pages in a browser" "there is no node or no Chromium"
    finish
    exit
fi
"$DOPPLERC" "$SRC/tests/golden/gemma3" --target tier1 --chunks 16 --quiet --report=report.html
"$DOPPLERC" "$SRC/tests/golden/gemma3" --target lavapipe --ctx 64 --chunks 8 --quiet -o p.plan
"$EXEC" p.plan --tokens "2 3 4 5" -n 6 --ignore-eos --quiet --profile profile.html >table
check "the pages in a browser" node "$SRC/tests/serve/reports.mjs" "$PWD/report.html" "$PWD/profile.html" "$browser"
tail -n 1 .out
finish
