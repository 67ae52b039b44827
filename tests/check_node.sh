# The package for Node, which starts doppler-exec as a process of its own.
. "$(dirname "$0")/lib.sh"
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0] >= 18')" != true ]; then
    skip "the package for Node" "no node of 18 or later"
    finish
fi
check "a plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.plan --ctx 512 --chunks 32 --sequences 4 --rows 4 --embed \
    --target lavapipe --quiet
cat >chat.jinja <<'END'
{% for tool in tools or [] %}{{ tool | tojson }} as <tool_call>{"name", "arguments"}</tool_call>
{% endfor %}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}
END
check "what it does" sh -c 'node "$@" >said' sh "$SRC/tests/serve/node.mjs" "$SRC/bindings/node" "$EXEC" demo.plan ./chat.jinja
check "all 11 parts of it" grep -qx "11 tests passed" said
version=$("$EXEC" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
check "its version is the program's" grep -q "\"version\": \"$version\"" "$SRC/bindings/node/package.json"
finish
