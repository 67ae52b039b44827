# The long part of golden.serve (tests/golden/serve.sh sources it).
memory() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$server/status"; } # MiB
field() { sed -E "s/.*\"$1\": ([0-9.]+).*/\1/" "$2"; }
count() { curl -s "$url/metrics" | awk -v name="doppler_$1" '$1 == name { print int($2) }'; }

# ---- 64 clients ---------------------------------------------------------------------------------------------------------
check "a plan of 16 sequences" "$DOPPLERC" "$demo" -o many.plan --ctx 256 --chunks 32 --sequences 16 --rows 8,16 --target lavapipe --quiet
serve many --temp 1
"$TOOLS/clients" "$(port)" 64 10 8 24 >warm
before=$(memory)
check "64 clients for 60 s" sh -c '"$1" "$2" 64 60 8 24 >load' sh "$TOOLS/clients" "$(port)"
after=$(memory)
cat load
awk -v x="$(field worstP95OverMedian load)" 'BEGIN { exit !(x > 0 && x <= 3) }' && pass "no client's p95 is above three times the median" ||
    fail "fair to all clients" "$(field worstP95OverMedian load)"
[ $((after - before)) -le 32 ] && pass "memory stays: $before, then $after MiB" || fail "memory stays" "$before, then $after MiB"
check "64 clients, half of which misbehave, for 30 s" "$TOOLS/clients" "$(port)" storm 64 30
[ $(($(memory) - after)) -le 48 ] && pass "and memory too" || fail "and memory too" "$after, then $(memory) MiB"
stop "it ends well"

# ---- fewer pages than tokens ------------------------------------------------------------------------------------------------
check "a plan with few pages" "$DOPPLERC" "$demo" -o pages.plan --ctx 512 --chunks 32 --sequences 8 --rows 8 --ctx-total 1024 \
    --target lavapipe --quiet
serve pages --temp 1
check "8 clients with answers that do not fit together" "$TOOLS/clients" "$(port)" 8 10 20 200
stop "it ends well"

# ---- a prefix of 1000 tokens -----------------------------------------------------------------------------------------------
check "a plan without windows" "$DOPPLERC" "$SRC/tests/golden/qwen3" -o prefix.plan --ctx 1280 --chunks 64 --sequences 4 --rows 4 \
    --target lavapipe --quiet
serve prefix --tokenizer "$demo"
system=$(seq 1000 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), 20 + $1 * 7 % 100 }')
for i in $(seq 50); do
    echo "{\"prompt\": [$system,$((20 + i)),30,31], \"max_tokens\": 2}"
done >requests
ask 200 '"text"' /v1/completions "$(head -n 1 requests)"
reused=$(count prompt_tokens_reused_total)
tail -n 49 requests >rest
begin=$(date +%s%N)
xargs -d '\n' -P 4 -n 1 curl -s -o /dev/null -H 'Content-Type: application/json' "$url/v1/completions" -d <rest
took=$((($(date +%s%N) - begin) / 1000000))
reused=$(($(count prompt_tokens_reused_total) - reused))
[ "$reused" -ge $((49 * 900)) ] && pass "49 requests computed the prefix anew for $((49 * 1003 - reused)) tokens ($took ms)" ||
    fail "the prefix is computed once" "$reused of $((49 * 1003)) tokens were reused"
[ "$(count 'jobs_total{end="length"}')" -eq 50 ] && pass "all 50 were answered" || fail "all 50 were answered"
stop "it ends well"

# ---- other people's clients -----------------------------------------------------------------------------------------------
printf 'secret-1\n' >keys
serve demo --chat-template ./chat.jinja --temp 1 --api-key-file keys
if ! command -v node >/dev/null; then
    skip "OpenAI's client" "there is no node"
elif ! (mkdir -p npm && cd npm && timeout 120 npm install --silent --no-audit --no-fund openai@6 @anthropic-ai/sdk@1 ajv@8 >../npm.log 2>&1); then
    skip "OpenAI's client" "npm cannot install it: $(tail -n 1 npm.log)"
else
    check "OpenAI's client" node "$SRC/tests/serve/openai.mjs" "$url" "$PWD/npm"
    if (cd npm && timeout 180 npm install --silent --no-audit --no-fund cohere-ai@7 @langchain/cohere@1 @langchain/core@1 >../npm.log 2>&1); then
        check "Cohere's client, and langchain's reranker" node "$SRC/tests/serve/rerank.mjs" "$url" "$PWD/npm"
    else
        skip "Cohere's client" "npm cannot install it: $(tail -n 1 npm.log)"
    fi
    check "Anthropic's client, and OpenAI's for responses" node "$SRC/tests/serve/anthropic.mjs" "$url" "$PWD/npm" secret-1
    stop "it ends well"
    mkdir -p forms
    check "templates of many forms of calls" node "$SRC/tests/serve/tools.mjs" forms forms
    if ! (cd npm && timeout 120 npm install --silent --no-audit --no-fund ai@6 @ai-sdk/openai-compatible@2 @langchain/core@1 \
        @langchain/openai@1 zod@4 >../npm.log 2>&1); then
        skip "other clients and tools" "npm cannot install them: $(tail -n 1 npm.log)"
    else
        check "a plan for three rounds" "$DOPPLERC" "$demo" -o rounds.plan --ctx 2048 --chunks 32 --sequences 4 --rows 4 \
            --target lavapipe --quiet
        for form in forms/*.jinja; do
            serve rounds --chat-template "./$form" --temp 1 --api-key-file keys
            check "three clients, three rounds with tools: $form" node "$SRC/tests/serve/tools.mjs" "$url" "$PWD/npm"
            stop "it ends well"
        done
    fi
    serve demo
    check "every schema, 5 samples at temperature 1" node "$SRC/tests/serve/schemas.mjs" "$url" "$PWD/npm" \
        "$SRC/tests/grammar/corpus.json" 5
    tail -n 1 .out
fi
stop "it ends well"
browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
if ! command -v node >/dev/null || [ -z "$browser" ]; then
    skip "the page in a browser" "there is no node or no Chromium"
else
    serve demo --chat-template ./chat.jinja --temp 1
    check "the page in a browser" node "$SRC/tests/serve/page.mjs" "$url" "$browser"
    stop "it ends well"
fi
