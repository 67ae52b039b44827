# Sixteen texts that share a long beginning and part, at once: they fit in the memory of one and of their ends, nothing of the beginning is
# read again, and each writes what it writes alone (tests/tools/branches.c); the same from a server's clients.  The argument `whole`: of
# models with windows and recurrent layers too, and longer.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"

# The pool holds --ctx-total positions: 16 sequences of 700 tokens each would need 11,200.
branches() { # MODEL CTX-TOTAL
    check "a plan of $1 with pages for $2 tokens" "$DOPPLERC" "$SRC/tests/golden/$1" -o "$1.plan" --ctx 1024 --ctx-total "$2" --chunks 64 \
        --sequences 16 --rows 16 --kv f32 --quiet &&
        check "16 branches of $1" "$TOOLS/branches" "$1.plan" 16 680 12 8 3 && echo "        $(cat .out)"
}

if [ "${1:-}" = whole ]; then
    for model in llama gemma2 gemma3 mistral_window gpt_oss qwen3_5 falcon_h1 lfm2 qwen3_next nemotron_h gemma4; do
        branches "$model" 2048
    done
fi
branches qwen3 2048
command -v curl >/dev/null || { skip "16 clients" "curl is absent"; trap - EXIT; finish; }

# ---- a server's clients ------------------------------------------------------------------------------------------------------
serve qwen3 --tokenizer "$SRC/examples/shakespeare-gemma3" --prompt-cache states
count() { curl -s "$url/metrics" | awk -v name="doppler_$1" '$1 == name { print int($2) }'; }
shared=$(seq 600 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), 20 + $1 * 7 % 100 }')
for i in $(seq 16); do
    echo "{\"prompt\": [$shared,$((20 + i)),30,31], \"max_tokens\": 6, \"temperature\": 0, \"logprobs\": 0}" >"request.$i"
done
clients=
for i in $(seq 16); do
    curl -s --max-time 1000 -o "together.$i" -H 'Content-Type: application/json' -d "@request.$i" "$url/v1/completions" &
    clients="$clients $!"
done
wait $clients
reused=$(count prompt_tokens_reused_total)
for i in $(seq 16); do
    curl -s --max-time 1000 -o "alone.$i" -H 'Content-Type: application/json' -d "@request.$i" "$url/v1/completions"
    grep -oE '"text":"([^"\\]|\\.)*"' "together.$i" >text && grep -qF "$(cat text)" "alone.$i" || echo "$i: $(head -c 200 "together.$i")"
done >differ
[ ! -s differ ] && pass "16 clients at once get what each gets alone" || fail "16 clients at once get what each gets alone" "$(cat differ)"
[ "${reused:-0}" -ge $((15 * (600 - 64))) ] && pass "the beginning is read once: $reused of $((16 * 603)) tokens were there" ||
    fail "the beginning is read once" "$reused of $((16 * 603)) tokens were there"
# The last answer's states are written while nothing runs any more.
there() { echo "$(cat states/*.states | wc -c) $(ls states/*.states | wc -l)"; }
counted() { echo "$(count file_bytes) $(count files_written_total)"; }
for _ in $(seq 100); do
    [ "$(there)" = "$(counted)" ] && break
    sleep 0.05
done
check "bytes and files are counted" [ "$(there)" = "$(counted)" ]
stop "it ends well"
trap - EXIT
finish
