# doppler-exec with a model in the place of a plan: its cache of plans, and what must not go wrong with it; downloads from a server of
# our own (tools/hub.py).
. "$(dirname "$0")/../lib.sh"
export LD_LIBRARY_PATH=$TOOLS/as_written # the compiler whose shaders are remembered
plans=$XDG_CACHE_HOME/doppler/plans
small=(--ctx 64 --chunks 8 --target lavapipe)
ask=(--tokens "5 6 7" -n 6 --temp 0 --print-ids --quiet)
cp -r "$SRC/tests/golden/llama" model
"$DOPPLERC" model -o whole.plan "${small[@]}" --quiet
"$DOPPLERC" model -o own.plan "${small[@]}" --weights model --quiet
want=$("$EXEC" own.plan "${ask[@]}")
check "ids to compare with" [ -n "$want" ]
run() { "$EXEC" "$@" "${ask[@]}"; }
says() { [ "$(run "$@" 2>err)" = "$want" ]; } # the same ids as the plan that dopplerc made
entries() { find "$plans" -maxdepth 1 -name '*.plan' 2>/dev/null | wc -l; }
inodes() { find "$plans" -maxdepth 1 -name '*.plan' -printf '%i ' 2>/dev/null; }
leftovers() { find "$plans" -maxdepth 1 -name '*.tmp.*'; }

# ---- cold and warm ----------------------------------------------------------------------------------------------------
check "cold: a model is compiled and run" says model "${small[@]}"
check "and nothing else is said" [ ! -s err ]
check "its plan is kept" [ "$(entries)" = 1 ]
check "which is the plan that dopplerc makes" cmp own.plan "$plans"/*.plan
first=$(inodes)
mkdir none
: >none/libdopplerc.so.0
check "warm: no compiler is loaded" env LD_LIBRARY_PATH="$WORK/none" "$EXEC" model "${small[@]}" "${ask[@]}"
check "and the plan is the same" [ "$(inodes)" = "$first" ]
check_fails "without the compiler, another option names its package" 2 "install the package doppler-compiler" \
    env LD_LIBRARY_PATH="$WORK/none" "$EXEC" model "${small[@]}" --kv f32 "${ask[@]}"
check "every mode takes a model" sh -c '"$1" model --ctx 64 --chunks 8 --target lavapipe --info | grep -q "^model"' sh "$EXEC"
check "a copy elsewhere has the same plan" sh -c 'mkdir far && cp -r model far/other'
check "as its contents are the same" says far/other "${small[@]}"
check "no other plan" [ "$(inodes)" = "$first" ]

# ---- what a plan depends on -------------------------------------------------------------------------------------------
touch model/*
check "times alone change nothing" says model "${small[@]}"
check "no new plan" [ "$(inodes)" = "$first" ]
check "another option, another plan" says model "${small[@]}" --kv f32
check "beside the first" [ "$(entries)" = 2 ]
check "and back" says model "${small[@]}"
check "without a new one" [ "$(entries)" = 2 ]
sed -i '1s/{/{"comment": 1,/' model/config.json
check "another file, another plan" says model "${small[@]}"
check "which is a third one" [ "$(entries)" = 3 ]
check "the list has them" [ "$("$EXEC" --cache-list | grep -c "/model .*--ctx 64")" = 3 ]
check "and their sum" sh -c '"$1" --cache-list | tail -n 1 | grep -q "^3 plans, "' sh "$EXEC"
printf 'mode: keep\n' >odd.yaml
check_fails "an error of the compiler is one line" 1 "odd.yaml" run model "${small[@]}" --quant odd.yaml
check_fails "so is one of an option" 2 "--kv f99: known are" run model "${small[@]}" --kv f99
check_fails "options of a compilation are not for plans" 2 "--ctx is part of the plan" run own.plan --ctx 8
check_fails "nor for nothing" 2 "--ctx is part of the plan" run --ctx 8

# ---- damage -----------------------------------------------------------------------------------------------------------
"$EXEC" --cache-clear >said
check "the cache is cleared" [ "$(entries)" = 0 ]
check "it says how much" grep -q "MB freed in $XDG_CACHE_HOME/doppler" said
says model "${small[@]}"
size=$(stat -c %s "$plans"/*.plan)
printf 'x' | dd of="$(echo "$plans"/*.plan)" bs=1 seek=$((size - 2000)) conv=notrunc status=none
check "a damaged plan is made again" says model "${small[@]}"
check "and is sound" cmp own.plan "$plans"/*.plan
truncate -s 5000 "$plans"/*.plan
check "so is one that was cut short" says model "${small[@]}"
truncate -s 7000 "$plans"/*.plan
printf "5 6 7" | "$EXEC" model "${small[@]}" --tokens-file - -n 6 --temp 0 --print-ids --quiet >ids 2>err
check "with a prompt from a pipe" [ "$(cat ids)" = "$want" ]
: >"$(echo "$plans"/*.plan)"
check "and an empty one" says model "${small[@]}"
for file in "$plans"/files/*; do echo "nonsense" >"$file"; done
check "what is remembered of files may be damaged" says model "${small[@]}"
check "one plan" [ "$(entries)" = 1 ]
entry=$(echo "$plans"/*.plan)
rm "$entry" && mkdir -p "$entry/within"
check "a folder in the place of a plan" says model "${small[@]}"
check "has gone" [ -f "$entry" ]
odd=$WORK/"of two
lines"
mkdir "$odd" && cp -r model "$odd/model"
check "a folder whose name no plan can have" says "$odd/model" "${small[@]}" --kv f32
check "is one line of the list" [ "$("$EXEC" --cache-list | grep -c 'of two?lines/model')" = 1 ]
check_fails "nor a file of weights with such a name" 1 "has a control character" \
    "$DOPPLERC" model -o "$odd.plan" --weights external "${small[@]}" --quiet
other() { "$@"; } # who may not write there; root may everywhere
[ "$(id -u)" != 0 ] || other() { setpriv --reuid 65534 --clear-groups "$@"; }
chmod -R a-w,a+rX "$plans"
if other "$EXEC" --cache-list >said 2>&1 && ! other touch "$plans/x" 2>err; then
    check "a cache that may only be read is used" [ "$(other "$EXEC" model "${small[@]}" "${ask[@]}")" = "$want" ]
    check_fails "but nothing is added" 1 "plans of models cannot be kept here" \
        other "$EXEC" model "${small[@]}" --act f16 "${ask[@]}"
else
    skip "a cache that may only be read" "there is no other user"
fi
chmod -R u+w "$plans"
"$EXEC" --cache-clear >said
says model "${small[@]}"

# ---- the disk holds weights once --------------------------------------------------------------------------------------
model_weights() { "$EXEC" "$1" --info | sed -n 's/^ *\([0-9]*\) bytes are those of .*model.safetensors.*/\1/p'; }
of_model=$(model_weights own.plan)
check "the plan uses the model's own file" [ "$of_model" -gt 240000 ]
check "and is smaller by as much" [ $(($(stat -c %s whole.plan) - $(stat -c %s own.plan))) -gt $((of_model - 8192)) ]
check "a whole plan names no file" sh -c '! "$1" whole.plan --info | grep -q safetensors' sh "$EXEC"
cp -r model moved && "$DOPPLERC" moved -o moved.plan "${small[@]}" --weights model --quiet
check "it says the same" [ "$(run moved.plan)" = "$want" ]
cp moved/model.safetensors good
printf '\377' | dd of=moved/model.safetensors bs=1 seek=$(($(stat -c %s good) - 500)) conv=notrunc status=none
check_fails "a model's file that was changed" 1 "moved/model.safetensors, which has weights of this plan, was changed" run moved.plan
truncate -s -4 moved/model.safetensors
check_fails "or cut short" 1 "moved/model.safetensors, which has weights of this plan, was changed" run moved.plan
rm -r moved
check_fails "or is gone" 1 "moved/model.safetensors, which has weights of this plan, is gone" run moved.plan
check "the plan of a model" says far/other "${small[@]}"
rm -r model
check "that has gone is made again for its copy" says far/other "${small[@]}"
check "with nothing but ids" [ ! -s err ]
cp -r far/other model
says model "${small[@]}"

# ---- several processes, and their ends --------------------------------------------------------------------------------
"$EXEC" --cache-clear >said
for i in 1 2 3; do "$EXEC" model "${small[@]}" --tokens "5 6 7" -n 6 --temp 0 --print-ids -v >"ids$i" 2>"err$i" & done
wait
check "three at once say the same" [ "$(cat ids1 ids2 ids3 | sort -u)" = "$want" ]
check "one of them has compiled" [ "$(cat err1 err2 err3 | grep -c '^doppler-exec: compiled ')" = 1 ]
"$EXEC" --cache-clear >said
"$EXEC" model "${small[@]}" "${ask[@]}" >ids 2>err &
sleep 0.2
kill -9 $!
wait $! 2>/dev/null
check "after a process was killed" says model "${small[@]}"
check "nothing is left of it" [ -z "$(leftovers)" ]
"$EXEC" --cache-clear >said
check_fails "no room: one line" 1 "File too large" bash -c 'ulimit -f 64; shift; exec "$@"' sh x "$EXEC" model "${small[@]}" "${ask[@]}"
check "and nothing is left" [ "$(entries)$(leftovers)" = 0 ]
check_fails "a cache that cannot be made" 1 "plans of models cannot be kept here" run model "${small[@]}" --cache-dir /dev/null/x
check_fails "no cache at all" 2 "name one with --cache-dir" env -u HOME -u XDG_CACHE_HOME "$EXEC" model "${small[@]}" "${ask[@]}"
check "a cache elsewhere" says model "${small[@]}" --cache-dir "$WORK/else/where"
check "is there" [ "$(find "$WORK/else/where/plans" -name '*.plan' | wc -l)" = 1 ]

# ---- the least recently used go ---------------------------------------------------------------------------------------
head -c 3000000 /dev/zero >"$plans/00000000000000000000000000000000-0000000000000000.plan"
touch -d "2 days ago" "$plans/00000000000000000000000000000000-0000000000000000.plan"
check "within the limit" says model "${small[@]}" --cache-limit 1
check "the oldest is gone" [ ! -e "$plans/00000000000000000000000000000000-0000000000000000.plan" ]
check "the plan that is used stays" [ "$(entries)" = 1 ]

# ---- downloads --------------------------------------------------------------------------------------------------------
if ! command -v python3 >/dev/null || ! [ -e "$(dirname "$DOPPLERC")/../../../doppler-fetch.so" ]; then
    skip "downloads" "no python3, or built without libcurl"
    finish
    exit
fi
mkdir -p hub/me/tiny hub/me/files
cp -r "$SRC"/tests/golden/llama/* hub/me/tiny
head -c 2000000 /dev/urandom >hub/me/files/big-Q4_K_M.gguf
head -c 1000 /dev/urandom >hub/me/files/big-Q8_0.gguf
echo "text" >hub/me/files/README.md
serve() { # OPTION...: a server, whose address is then in HF_ENDPOINT
    python3 "$SRC/tests/tools/hub.py" hub "$@" >port &
    server=$!
    for _ in $(seq 100); do [ -s port ] && break || sleep 0.1; done
    export HF_ENDPOINT=http://127.0.0.1:$(cat port)
}
stop() { kill $server && wait $server 2>/dev/null; rm -f port; }
models=$XDG_CACHE_HOME/doppler/models
serve --cut 20000
check "a model of the hub" says -hf me/tiny "${small[@]}"
check "which broke off and went on" grep -q 'bytes=20000-' hub/log
for file in config.json model.safetensors; do check "$file" cmp "hub/me/tiny/$file" "$models/me/tiny/$file"; done
check_fails "no such model" 1 "has no such model" run -hf me/none
check_fails "no such file" 1 "GGUF files: big-Q4_K_M.gguf, big-Q8_0.gguf" run -hf me/files:Q5_0
check_fails "no name" 2 "expected USER/REPO" run -hf me
check_fails "a name that leaves the folder" 2 "expected USER/REPO" run -hf ../..
check_fails "what is no model says so" 1 "big-Q8_0.gguf" run -hf me/files:Q8_0
check "its file is here" cmp hub/me/files/big-Q8_0.gguf "$models/me/files/big-Q8_0.gguf"
mkdir -p "$models/me/files"
head -c 700000 hub/me/files/big-Q4_K_M.gguf >"$models/me/files/big-Q4_K_M.gguf.part"
check_fails "the usual type, where none is named" 1 "big-Q4_K_M.gguf" run -hf me/files
check "goes on where another run ended" grep -q 'bytes=700000-' hub/log
check "and has all" cmp hub/me/files/big-Q4_K_M.gguf "$models/me/files/big-Q4_K_M.gguf"
stop
check "again, without the server" says -hf me/tiny "${small[@]}"
rm "$models/me/files"/*
check_fails "without the server: one line" 1 "cannot get the model from http://127.0.0.1" run -hf me/files
serve --lie
check_fails "another digest" 1 "was damaged on its way" run -hf me/files
check "nothing is kept of it" [ -z "$(find "$models/me/files" -name '*.gguf*')" ]
stop
serve --whole
head -c 700000 /dev/zero >"$models/me/files/big-Q4_K_M.gguf.part"
check_fails "a server without ranges" 1 "big-Q4_K_M.gguf" run -hf me/files
check "sends the whole file" cmp hub/me/files/big-Q4_K_M.gguf "$models/me/files/big-Q4_K_M.gguf"
stop
serve --cut 700000 --shift
rm "$models/me/files"/*
check_fails "ranges of other bytes" 1 "big-Q4_K_M.gguf" run -hf me/files
check "are noticed, and all is sent again" cmp hub/me/files/big-Q4_K_M.gguf "$models/me/files/big-Q4_K_M.gguf"
stop
serve --cut 700000 --refuse --busy
rm "$models/me/files"/*
check_fails "a server that is busy, and refuses ranges" 1 "big-Q4_K_M.gguf" run -hf me/files
check "is asked again, for all" cmp hub/me/files/big-Q4_K_M.gguf "$models/me/files/big-Q4_K_M.gguf"
check "a revision with slashes" says -hf me/tiny@refs/pr/1 "${small[@]}"
check "is one part of an address" grep -q "/me/tiny/resolve/refs%2Fpr%2F1/config.json" hub/log
stop
mkdir -p hub/me/eyes hub/me/sentences/{1_Pooling,2_Dense,onnx}
for name in eyes-Q8_0 mmproj-eyes-BF16 mmproj-eyes-F16 mmproj-eyes-Q8_0; do echo $name >hub/me/eyes/$name.gguf; done
for name in {,1_Pooling/,2_Dense/,onnx/}config.json {,2_Dense/,onnx/}model.safetensors model.fp32-00001-of-00001.safetensors; do
    echo $name >hub/me/sentences/$name
done
serve
check_fails "a model with eyes" 1 "eyes-Q8_0.gguf" run -hf me/eyes
check "comes with one vision part" [ "$(cd "$models/me/eyes" && echo *)" = "eyes-Q8_0.gguf mmproj-eyes-F16.gguf" ]
check_fails "a model with modules" 1 "config.json" run -hf me/sentences
wanted="{,1_Pooling/,2_Dense/}config.json {,2_Dense/}model.safetensors"
check "comes with their folders, and with its weights once" \
    [ "$(cd "$models/me/sentences" && find . -type f -name '[!.]*' | sort)" = "$(eval printf '"./%s\\n"' "$wanted" | sort)" ]
stop
serve --token secret
rm -r "$models"
check_fails "no token" 1 "set HF_TOKEN" run -hf me/tiny
check_fails "a wrong one" 1 "HF_TOKEN must be of an account" env HF_TOKEN=guess "$EXEC" -hf me/tiny "${small[@]}" "${ask[@]}"
check_fails "none at all" 2 "HF_TOKEN is no token" env HF_TOKEN=$'secret\r\nX-More: 1' "$EXEC" -hf me/tiny "${small[@]}" "${ask[@]}"
check "the right one, as a file has it" env HF_TOKEN=$'secret\n' "$EXEC" -hf me/tiny "${small[@]}" "${ask[@]}"
check "is in no file" sh -c '! grep -rq secret "$1"' sh "$XDG_CACHE_HOME"
stop
check "--cache-clear keeps downloads" sh -c '"$1" --cache-clear >/dev/null && [ -e "$2/me/tiny/config.json" ]' sh "$EXEC" "$models"
check "--cache-clear=all does not" sh -c '"$1" --cache-clear=all >/dev/null && [ ! -e "$2/me/tiny/config.json" ]' sh "$EXEC" "$models"
finish
