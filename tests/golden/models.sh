# --serve --models: several plans behind one server, loaded when they are asked for, unloaded by age and by memory.
# The argument `whole` is the long form: 64 clients for a minute.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "several models" "there is no python3"; finish; }
. "$(dirname "$0")/../lib_serve.sh"
whole=${1:-}
mkdir -p plans
check "a plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o plans/a.plan --ctx 256 --chunks 32 --sequences 4 --rows 4 \
    --target lavapipe --quiet
cp plans/a.plan plans/b.plan
cp plans/a.plan plans/c.plan
echo no plan >plans/readme.txt
head -c 5000 plans/a.plan >broken.plan
cat >list.yaml <<'END'
models:
  - id: one
    plan: plans/a.plan
  - {id: two, plan: plans/b.plan, aliases: [zwei, deux]}
  - id: broken
    plan: broken.plan
END
serve() { start log "$EXEC" --serve 0 "$@"; } # OPTION...
ask() { python3 "$SRC/tests/serve/protocols.py" "$url" "$@"; }
serve --models list.yaml --models-idle 6 --chat-template chatml
check "models by name" ask models
stop
# What caches hold, of each model and of all, while both are loaded and when one is not any more.
metric() { # NAME [MODEL]
    curl -sS "$url/metrics" | awk -v name="doppler_$1${2:+{model=\"$2\"\}}" '$1 == name { print $2 }'
}
props() { curl -sS "$url/props?model=$1" | sed -E "s/.*\"$2\": ?([0-9]+).*/\1/"; } # MODEL NAME
write_long() { # MODEL: a prompt of some pages, and a text
    curl -sSf -o answer -H 'Content-Type: application/json' "$url/v1/completions" \
        -d "{\"model\": \"$1\", \"prompt\": \"$(printf 'What say you of %s? ' $(seq 12))\", \"max_tokens\": 8}"
}
is_sum() { # NAME: the number of all models is the sum of the models', and not 0
    local all one two
    all=$(metric "$1") one=$(metric "model_$1" one) two=$(metric "model_$1" two)
    [ "$one" -gt 0 ] && [ "$two" -gt 0 ] && [ "$all" -eq $((one + two)) ]
}
serve --models list.yaml --prompt-cache kept --cache-memory 8M
for model in one two one two; do
    check "$model writes" write_long $model
done
for name in cache_bytes prompt_tokens_total written_tokens_total checkpoints_made_total prompt_tokens_reused_total; do
    check "the sum of $name" is_sum $name
done
check "the memory of a model is that of /props" [ "$(metric model_cache_bytes one)" = "$(props one memory_bytes)" ]
for _ in $(seq 300); do
    [ "$(metric files_written_total)" -gt 1 ] && break
    sleep 0.1
done
check "files are counted" [ "$(metric files_written_total)" -gt 1 ]
check "the folder of files is one" [ "$(metric file_bytes)" -gt 0 -a "$(metric file_bytes)" -le "$(du -sb kept | cut -f 1)" ]
check "sequences of both" [ "$(metric sequences)" -eq 8 ]
stop
serve --models list.yaml --models-memory 1 --cache-memory 8M --prompt-cache kept
check "one is loaded" write_long one
written=$(metric written_tokens_total)
check "and another in its place" write_long two
check "what it has counted stays" [ "$(metric written_tokens_total)" -eq $((2 * written)) -a "$(metric files_written_total)" -ge 0 ]
check "what came from files is counted" [ "$(metric prompt_tokens_loaded_total)" -gt 0 -a "$(metric file_hits_total)" -gt 0 ]
check "its memory is free" [ "$(metric cache_bytes)" -eq "$(metric model_cache_bytes two)" -a "$(metric sequences)" -eq 4 ]
check "and it is not listed" [ -z "$(metric model_cache_bytes one)" ]
stop
serve --models plans --models-memory 1
check "memory for one model" ask "load:$([ -n "$whole" ] && echo 60:64 || echo 2:6)"
stop

# ---- names ---------------------------------------------------------------------------------------------------------------------
mkdir -p odd
mv plans/c.plan $'odd/a\nb c.plan'
serve --models odd --log text
check "a model of an odd name" curl -sSf -o answer -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"model": "a\nb c", "prompt": "x", "max_tokens": 1}'
stop
check "its line in the log is one line" grep -qE '^[-0-9T:]+Z .* 200 .*; model a b c$' log

# ---- what is wrong with a list ------------------------------------------------------------------------------------------------
wrong() { # TEXT OF THE FILE, WHAT IS SAID
    printf '%s\n' "$1" >wrong.yaml
    "$EXEC" --serve 0 --models wrong.yaml >log 2>&1
    [ $? -eq 1 ] && grep -qE -- "$2" log && [ "$(wc -l <log)" -eq 1 ] && pass "refused: $2" || fail "refused: $2" "$(cat log)"
}
wrong 'models: []' 'wrong.yaml: .*there is no model in it'
wrong '[a, b]' 'a file of models is a mapping'
wrong 'models: [{id: a}]' 'wrong.yaml:1: .*an id and a plan'
wrong 'models: [{id: a, plan: x, speed: 3}]' 'no "speed"'
wrong 'models: [{id: a, plan: x}, {id: b, plan: y, aliases: [a]}]' 'two models have the name "a"'
wrong 'models: [{id: a, plan: x, aliases: b}]' 'aliases are a list of names'
mkdir -p none
check "no plan in a folder" sh -c '! "$1" --serve 0 --models none 2>err && grep -q "no plan" err' sh "$EXEC"
check "no plan beside a list" sh -c '"$1" plans/a.plan --serve 0 --models plans 2>err; [ $? -eq 2 ]' sh "$EXEC"
finish
