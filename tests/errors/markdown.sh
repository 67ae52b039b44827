# Markdown of the chat page, with hostile texts; tests/serve/page.mjs is the page itself, in a browser.
. "$(dirname "$0")/../lib.sh"
if command -v node >/dev/null; then
    check "Markdown of the chat page" node "$SRC/tests/serve/markdown.mjs" "$SRC/serve/page"
    tail -n 1 .out
else
    skip "Markdown of the chat page" "there is no node"
fi
finish
