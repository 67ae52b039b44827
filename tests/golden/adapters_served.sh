# The server with adapters: requests that name them, alone and at once, write what the command line writes with them.
. "$(dirname "$0")/../lib.sh"
command -v curl >/dev/null || { skip served "no curl"; finish; }
model=$SRC/examples/shakespeare-gemma3
"$TOOLS/adapt" "$model" one 4 1 - 0.05 >/dev/null
"$TOOLS/adapt" "$model" two 4 2 mlp 0.08 >/dev/null
check "compiles" "$DOPPLERC" "$model" -o a.plan --quiet --target lavapipe --adapters 2 --rank 4 --sequences 4 --rows 4 --ctx 256 --chunks 16 || finish
alone() { # NAME OPTION...
    "$EXEC" a.plan -p ROMEO: -n 16 --temp 0 --quiet --no-display-prompt "${@:2}" >"$1.want"
}
alone none && alone one --lora one && alone two --lora two
cmp -s one.want two.want && fail "the adapters differ"

"$EXEC" a.plan --serve 0 --lora one:0 --lora two:0 --quiet >server.log 2>&1 &
server=$!
for _ in $(seq 300); do grep -q '^serving' server.log && break; sleep 0.2; done
url=$(sed -n 's/.* on \(http:[^ ]*\).*/\1/p' server.log)
ask() { # MEMBER...: the text of the answer
    curl -s -m 120 $url/v1/completions -H 'Content-Type: application/json' \
        -d "{\"prompt\": \"ROMEO:\", \"max_tokens\": 16, \"temperature\": 0, $1}" | sed 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/'
}
want() { # NAME: what the command line wrote, as in JSON
    awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }' "$1.want"
}
same() { # NAME WANT GOT
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "\"$3\" instead of \"$2\""; fi
}
name=$(curl -s $url/v1/models | sed 's/.*"last_id":"\([^"]*\):two".*/\1/')
same "none" "$(want none)" "$(ask '"n": 1')"
same "by number" "$(want one)" "$(ask '"lora": [{"id": 0, "scale": 1}]')"
same "by another number" "$(want two)" "$(ask '"lora": [{"id": 1}]')"
same "by the model's name" "$(want one)" "$(ask "\"model\": \"$name:one\"")"
asked=
for i in 1 2 3 4; do
    ask "\"lora\": [{\"id\": $(((i + 1) % 2))}]" >at_once.$i &
    asked+=" $!"
done
wait $asked
for i in 1 2 3 4; do same "at once, $i" "$(want $([ $((i % 2)) = 1 ] && echo one || echo two))" "$(cat at_once.$i)"; done
refused() { # NAME TEXT BODY [PATH]
    [ "$(curl -s -o answer -w '%{http_code}' $url${4:-/v1/completions} -H 'Content-Type: application/json' -d "$3")" = 400 ] &&
        grep -qF "$2" answer && pass "$1" || fail "$1" "$(cat answer)"
}
refused "an id that there is not" "none of the adapters" '{"prompt": "a", "lora": [{"id": 2}]}'
refused "no list" "a list of" '{"prompt": "a", "lora": {"id": 2}}'
refused "no number" "not a number" '{"prompt": "a", "lora": [{"id": 0, "scale": "x"}]}'
refused "a name that there is not" "no adapter has the name" "{\"prompt\": \"a\", \"model\": \"$name:three\"}"
refused "factors of what there is not" "none of the adapters" '[{"id": 7, "scale": 1}]' /lora-adapters
curl -s -o /dev/null $url/lora-adapters -H 'Content-Type: application/json' -d '[{"id": 1, "scale": 1}]'
same "as set for all" "$(want two)" "$(ask '"n": 1')"
same "nothing is lost" "$(want one)" "$(ask '"lora": [{"id": 0, "scale": 1}]')"
kill $server
wait $server 2>/dev/null
finish
