# --serve --models with models in the place of plans: GGUF files, folders and downloads, each compiled when it is asked for.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "models that are compiled" "there is no python3"; finish; }
. "$(dirname "$0")/../lib_serve.sh"
export LD_LIBRARY_PATH=$TOOLS/as_written # the compiler whose shaders are remembered
draft=$SRC/examples/shakespeare-gemma3-draft
hub=
trap '[ -z "$server$hub" ] || kill $server $hub 2>/dev/null; echo "the script ended early"; exit 1' EXIT
serve() { start log "$EXEC" --serve 0 "$@"; } # OPTION...
ask() { python3 "$SRC/tests/serve/made.py" "$url" "$1" "$XDG_CACHE_HOME/doppler/plans/lock"; }
said() { [ "$(grep -cE -- "$2" log)" -eq "$1" ] || { cat log && false; }; } # TIMES TEXT

# ---- a folder --------------------------------------------------------------------------------------------------------------
mkdir -p mixed/small
cp "$draft"/* mixed/small
check "a plan" "$DOPPLERC" "$draft" -o mixed/ready.plan --ctx 64 --chunks 8 --target lavapipe --quiet
"$TOOLS/hf_to_gguf" "$SRC/examples/shakespeare-gemma3" mixed/big.gguf
cp mixed/big.gguf mixed/ready.gguf # the plan stands for it
echo "no model" >mixed/bad.gguf
head -c 3000 mixed/big.gguf >mixed/cut-00001-of-00002.gguf
cp mixed/cut-00001-of-00002.gguf mixed/cut-00002-of-00002.gguf
head -c 3000 mixed/big.gguf >mixed/mmproj-other.gguf
mkdir mixed/empty
serve --models mixed --ctx 128 --chunks 8 --target lavapipe --serve-comment 0.1
check "a vision part is told of" said 1 'mixed/mmproj-other.gguf: note: a vision part is not a model'
check "a folder" ask folder
check "two requests wait for one compilation" said 1 '^doppler-exec: big: compiled in [0-9.]+ s$'
check "its progress" said 1 '^doppler-exec: big: compiling: kernels [0-9]+%$'
check "what cannot be compiled is one line" said 1 '^doppler-exec: mixed/cut-00001-of-00002.gguf: error: '
stop
serve --models mixed --ctx 128 --chunks 8 --target lavapipe
check "the next server finds its plans" ask again
check "and compiles nothing" said 0 'compil'
stop
"$EXEC" --cache-clear >said
cat >lines.py <<'END'
import json
import re
import sys

lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert all({"time", "message"} <= set(line) or {"time", "path", "status"} <= set(line) for line in lines), lines
said = " ".join(line["message"] for line in lines if "message" in line)
assert "serving the models of mixed" in said and "compiling: kernels" in said, said
assert any(line.get("level") == "error" and "cut-00001" in line["path"] for line in lines), lines
took = float(re.search(r"big: compiled in ([0-9.]+) s", said)[1])
asked = [line for line in lines if line.get("model") == "big"]
assert asked and all(line["firstTokenMs"] <= line["ms"] for line in asked), asked
assert max(line["firstTokenMs"] for line in asked) >= 1e3 * took - 60, (took, asked)
END
serve --models mixed --ctx 128 --chunks 8 --target lavapipe --log json -v
complete() { # MODEL
    curl -sS -o answer -H 'Content-Type: application/json' "$url/v1/completions" -d "{\"model\": \"$1\", \"prompt\": \"x\", \"max_tokens\": 2}"
}
check "a model is compiled" complete big
check "another cannot be" complete cut
stop
check "--log json: objects and nothing else, and the first token is counted from the request on" python3 lines.py log
"$EXEC" --serve 0 --models mixed --log json --serve-host 2>line
"$EXEC" --serve 0 --models nowhere --log json 2>>line
check "why it does not start" python3 -c 'import json; assert json.loads(list(open("line"))[-1])["level"] == "error"'
"$EXEC" --cache-clear >said
mkdir -p "$XDG_CACHE_HOME/doppler/plans"
serve --models mixed --ctx 128 --chunks 8 --target lavapipe --serve-comment 0.1
check "while another process compiles" ask locked
python3 "$SRC/tests/serve/made.py" "$url" hold "$XDG_CACHE_HOME/doppler/plans/lock" >held &
holder=$!
for _ in $(seq 100); do grep -q held held && break || sleep 0.1; done
stop # although the other process goes on
check "and without an error" said 1 ': error: '
kill $holder
cp "$draft"/* mixed/small

# ---- a file, each of whose models has options of its own --------------------------------------------------------------------
fetches=
[ -e "$(dirname "$DOPPLERC")/../../../doppler-fetch.so" ] && fetches=1
cat >list.yaml <<'END'
models:
  - {id: one, model: mixed/small, ctx: 64, chunks: 8, sequences: 2, rows: 2, aliases: [eins]}
  - {id: two, model: mixed/small, ctx: 96, chunks: 8, kv: q8_0, invariant: false, skip: [split-argmax, merge-rows]}
  - {id: wrong, model: mixed/small, kv: f99}
  - {id: ready, plan: mixed/ready.plan}
END
if [ -n "$fetches" ]; then
    echo '  - {id: far, hf: me/tiny, ctx: 80, chunks: 8}' >>list.yaml
    mkdir -p hub/me/tiny
    cp "$draft"/* hub/me/tiny
    python3 "$SRC/tests/tools/hub.py" hub >port &
    hub=$!
    for _ in $(seq 100); do [ -s port ] && break || sleep 0.1; done
    export HF_ENDPOINT=http://127.0.0.1:$(cat port)
else
    skip "a model of a hub" "built without libcurl"
fi
serve --models list.yaml
check "a file" ask "file:$fetches"
check "an option that is wrong is one line" said 1 '^doppler-exec: wrong: error: .*f99: known are'
stop

# ---- what is wrong with a list ------------------------------------------------------------------------------------------------
wrong() { # TEXT OF A MODEL, WHAT IS SAID
    printf 'models:\n- {id: a, %s}\n' "$1" >wrong.yaml
    check_fails "refused: $1" 1 "$2" "$EXEC" --serve 0 --models wrong.yaml
}
wrong 'model: x, plan: y' 'a model has an id and a plan, a model or hf'
wrong 'plan: x, ctx: 8' 'ctx is part of a plan'
wrong 'model: x, ctx: many' 'ctx needs a whole number, not "many"'
wrong 'model: x, act: f8' 'act f8: known are f16 and f32'
wrong 'model: x, invariant: 3' 'invariant is true or false'
wrong 'model: x, parts: 2' 'and no "parts"'
wrong 'model: [x]' 'model is a text'
mkdir plans
cp mixed/ready.plan plans
check_fails "options of a compilation, and only plans" 2 "--ctx 64 is part of a plan" "$EXEC" --serve 0 --models plans --ctx 64
check_fails "a list and a download" 2 "--models and --hf exclude one another" "$EXEC" --serve 0 --models plans -hf me/tiny
kill $hub 2>/dev/null
hub=
finish
