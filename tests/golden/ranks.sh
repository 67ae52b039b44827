# Plans in parts under mpirun: the same bits as the plan in one part, in everything that doppler-exec does; what is refused, and
# what a rank that is lost means to a server.  The argument `whole` is the long form: every golden model, in two and three parts.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/lib_ranks.sh"
without_ranks
# In a sanitized tree this is run by hand, with the options of the sanitized phase of tests/run.sh.  Open MPI loses texts of asprintf,
# whose caller the quick way to walk a stack does not find; the slow way stops for ever where llvmpipe registers code.
if [ -n "${LSAN_OPTIONS:-}" ]; then
    { cat "$SRC/tests/lsan.supp" && echo "leak:__vasprintf_internal"; } >ranks.supp
    export LSAN_OPTIONS="$LSAN_OPTIONS:suppressions=$PWD/ranks.supp"
fi
tokens="1 17 200 3 90 41 5 260 77 8 9 13 250 31 2 66 54 12 100 7 3"

# pair MODEL OPTION...: MODEL.1 in one part, and MODEL.2 in two.
pair() {
    local model=$1
    shift
    check "$model" "$DOPPLERC" "$SRC/tests/golden/$model" -o "$model.1" --ctx 56 --chunks 4,16 --quiet "$@" &&
        check "$model in two parts" "$DOPPLERC" "$SRC/tests/golden/$model" -o "$model.2" --ctx 56 --chunks 4,16 --quiet --parts 2 "$@"
}

# same NAME N PLAN OPTION...: prints the same, and writes the same logits, with PLAN.1 and, in N parts, with PLAN.N.
same() {
    local name=$1 n=$2 plan=$3 status=0
    shift 3
    "$EXEC" "$plan.1" --quiet "$@" --logits one.f32 >one.out 2>one.err || status=$?
    ranks "$n" "$EXEC" "$plan.$n" --quiet "$@" --logits parts.f32 >parts.out 2>parts.err || status=$?
    if [ "$status" -eq 0 ] && cmp -s one.out parts.out && cmp -s one.f32 parts.f32 && [ ! -s parts.err ]; then
        pass "$name"
    else
        fail "$name" "status $status: $(cat parts.err)"
    fi
}

if [ "${1:-}" = whole ]; then
    for folder in "$SRC"/tests/golden/*/; do
        model=$(basename "$folder")
        "$TOOLS/expect" tokens "$folder/expected.json" . >prompt
        check "$model" "$DOPPLERC" "$folder" -o m.1 --quiet || continue
        for n in 2 3; do
            if "$DOPPLERC" "$folder" -o m.$n --quiet --parts $n 2>why; then
                same "$model in $n parts" $n m --tokens-file prompt -n 12 --temp 0 --ignore-eos --print-ids
            elif grep -qE "has [0-9]+ layers|can be cut at" why; then
                skip "$model in $n parts" "$(cat why)"
            else
                fail "$model in $n parts" "$(cat why)"
            fi
        done
    done
    # Steps as one persistent dispatch a part: a software device may run its workgroups one after another, so there is one.
    printf '%s\n' "base: nvidia-hopper" "name: one-workgroup" "cores: 1" "subgroup: 8" "max_workgroup: 64" "persistent: 64" \
        "shared_bytes: 32768" "caps: [f16_storage, f16_math, i8_storage, subgroup]" >one-workgroup.yaml
    persistent() { # PLAN OPTION...
        "$DOPPLERC" "$SRC/tests/golden/llama" -o "$1" --ctx 56 --chunks 8 --quiet --target one-workgroup.yaml "${@:2}"
    }
    one_workgroup() { # FILE
        "$TOOLS/edit_plan" "$1" "$1.e" --workgroups 1 && mv "$1.e" "$1"
    }
    check "persistent: compiles" persistent stages.1
    check "persistent, in two parts: compiles" persistent stages.2 --parts 2 --split
    for file in stages.1 stages.2.part0 stages.2.part1; do
        check "$file: one workgroup" one_workgroup $file
    done
    same "persistent in each part" 2 stages --ordering persistent --tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-ids
    # Two hosts, each with its own part only.
    pair llama
    check "a file for each part" "$DOPPLERC" "$SRC/tests/golden/llama" -o split --ctx 56 --chunks 4,16 --quiet --parts 2 --split
    args=(--quiet --tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-ids)
    "$EXEC" llama.1 "${args[@]}" --logits one.f32 >one.out
    mkdir -p a b here
    mv split.part0 a/
    mv split.part1 b/
    status=0
    hosts "$EXEC" "$PWD/here/split" "${args[@]}" --logits "$PWD/two.f32" >two.out 2>two.err || status=$?
    if [ $status -eq 77 ]; then
        skip "two hosts" "namespaces are not allowed here"
        finish
    fi
    check "two hosts: the same" cmp one.out two.out
    check "two hosts: the same logits" cmp one.f32 two.f32
    head -c 20000 b/split.part1 >cut && mv cut b/split.part1
    if hosts "$EXEC" "$PWD/here/split" "${args[@]}" >two.out 2>two.err || ! grep -qE "rank 1 on b: .*truncated" two.err; then
        fail "two hosts: a part that is cut short" "$(cat two.err)"
    else
        pass "two hosts: a part that is cut short"
    fi
    from=$SECONDS
    quiet= hosts "$TOOLS/ranks" kill 2 >two.out 2>two.err
    if in_time $from 10 && grep -qE "process rank 1 .*node b exited on signal 9" two.out two.err; then
        pass "two hosts: a rank that is killed"
    else
        fail "two hosts: a rank that is killed" "after $((SECONDS - from)) s: $(cat two.out two.err)"
    fi
    finish
fi

pair llama --sequences 4
same "greedy, and logits of every token" 2 llama --tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-ids
ranks 2 "$EXEC" llama.2 --quiet --tokens "$tokens" -n 8 --temp 0.9 --seed 3 --ignore-eos --print-ids --session kept >a.out
ranks 2 "$EXEC" llama.2 --quiet --tokens "3" -n 8 --temp 0.9 --seed 3 --ignore-eos --print-ids --session kept --draft-ngram 1 >>a.out
"$EXEC" llama.1 --quiet --tokens "$tokens" -n 8 --temp 0.9 --seed 3 --ignore-eos --print-ids --session kept1 >b.out
"$EXEC" llama.1 --quiet --tokens "3" -n 8 --temp 0.9 --seed 3 --ignore-eos --print-ids --session kept1 --draft-ngram 1 >>b.out
check "sampled, kept in a session, and drafted" cmp a.out b.out
check "--bench" ranks 2 "$EXEC" --bench llama.2 -p 8 -n 4 -b 4 -r 1 --quiet
check "sequences in random order" ranks 2 "$TOOLS/sequences_ranks" llama.2 120 1 2e-2 "$WORK"

# States that steps replace.
pair falcon_h1
same "states that steps replace" 2 falcon_h1 --tokens "$tokens" -n 6 --temp 0 --ignore-eos --print-ids

# refused NAME TEXT COMMAND...: one line says TEXT, and nothing is printed.
refused() {
    local name=$1 text=$2
    shift 2
    if "$@" >refused.out 2>refused.err || [ -s refused.out ] || [ "$(wc -l <refused.err)" -ne 1 ] ||
        ! grep -qE "$text" refused.err; then
        fail "$name" "$(cat refused.out refused.err)"
    else
        pass "$name"
    fi
}
refused "without mpirun" "a plan in 2 parts.*mpirun -n 2" "$EXEC" llama.2 --tokens 1 -n 1
refused "three ranks for two parts" "in 2 parts and there are 3 ranks" ranks 3 "$EXEC" llama.2 --tokens 1 -n 1
refused "two ranks for a plan in one piece" \
    "llama.1: error: a plan in one piece, and there are 2 ranks: run it without mpirun, or compile it with --parts 2" \
    ranks 2 "$EXEC" llama.1 --tokens 1 -n 1
refused "--bench of a plan in one piece" "a plan in one piece, and there are 2 ranks" ranks 2 "$EXEC" --bench llama.1 -p 4 -n 2 -r 1 --quiet
"$EXEC" llama.1 --info >one.out
ranks 2 "$EXEC" llama.1 --info >two.out
check "--info under mpirun is said once" cmp one.out two.out
check "one rank is as none" ranks 1 "$EXEC" llama.1 --quiet --tokens 1 -n 1 --print-ids
refused "a prompt that is too long" "do not fit|tokens and the plan's context" \
    ranks 2 "$EXEC" llama.2 --tokens "$(seq -s " " 1 70)" -n 1
refused "--profile of a plan in parts" "times the dispatches of one device, and this plan is in 2 parts" \
    "$EXEC" llama.2 --tokens 1 -n 1 --profile times.html
refused "drafts of a plan in parts" "cannot write drafts: compile the draft model without --parts" \
    ranks 2 "$EXEC" llama.2 --tokens 1 -n 1 --draft llama.2
refused "--bench of two plans in parts" "several plans at a time, one of them in 2 parts" \
    ranks 2 "$EXEC" --bench llama.2 llama.2 -p 4 -n 2 -r 1 --quiet
refused "an empty name in a list of devices" 'rank 1 on [^ ]+: no device ""' ranks 2 "$EXEC" llama.2 --tokens 1 -n 1 --device 0,
"$EXEC" llama.2 --trace-kernels >trace
check "--trace-kernels of every part" [ "$(grep -c '^part [01] of 2$' trace)" = 2 ]
# Another rank's plan is cut short, or another one.
mkdir here there
cp llama.2 here/plan
head -c 20000 llama.2 >there/plan
each() { # COMMAND...: rank 0 runs in here, rank 1 in there
    ranks 2 bash -c 'cd $([ "$OMPI_COMM_WORLD_RANK" = 0 ] && echo here || echo there) && exec "$@"' - "$@"
}
refused "a plan that is cut short on one host" "rank 1 on .*truncated" each "$EXEC" plan --tokens 1 -n 1
cp falcon_h1.2 there/plan
refused "another plan on one host" "rank 1 on .*another plan" each "$EXEC" plan --tokens 1 -n 1

# Each host has the files of its own part only.
check "files of their own" "$DOPPLERC" "$SRC/tests/golden/llama" -o own --ctx 56 --chunks 4,16 --sequences 4 --quiet --parts 2 --split \
    --weights external
rm here/plan there/plan
mv own.part0 own.part0.weights here
mv own.part1 own.part1.weights there
each "$EXEC" own --quiet --tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-ids >own.out 2>own.err
"$EXEC" llama.1 --quiet --tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-ids >one.out
if cmp -s own.out one.out && [ ! -s own.err ]; then
    pass "files of their own part, and no others"
else
    fail "files of their own part, and no others" "$(cat own.err)"
fi
refused "files of another part" "rank 1 on .*own: cannot open" \
    ranks 2 bash -c 'cd here && exec "$@"' - "$EXEC" own --tokens 1 -n 1

# A server whose other rank is lost answers 503 to what is in flight, and ends within 10 s with one line that says why.
if ! command -v curl >/dev/null; then
    skip "a server" "there is no curl"
    finish
fi
check "a demo in two parts" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.2 --ctx 256 --chunks 8 --sequences 6 --rows 4 --embed \
    --parts 2 --target lavapipe --quiet
prompts=("ROMEO:" "What say you, my lord, to this most foul murder of the king?" "A" "KING HENRY: Once more unto the breach" "Enter")
# complete I: the text that greedy picks make of a prompt.
complete() {
    curl -sS --max-time 600 -H 'Content-Type: application/json' "$url/v1/completions" --data-binary \
        "{\"prompt\": \"${prompts[$1]}\", \"max_tokens\": $((8 + 3 * $1)), \"temperature\": 0, \"ignore_eos\": true}" |
        sed -E 's/.*("text":"([^"\\]|\\.)*").*/\1/'
}
# Alone a client's steps are waited for; of several there are as many under way as there are parts, and embeddings between them.
in_groups() {
    local i clients=()
    for i in ${!prompts[@]}; do complete $i >alone.$i; done
    for i in ${!prompts[@]}; do
        complete $i >together.$i &
        clients+=($!)
    done
    curl -sS --max-time 600 -H 'Content-Type: application/json' --data-binary '{"input": "a king"}' "$url/v1/embeddings" >vector
    wait "${clients[@]}"
    check "a server: an embedding beside five clients" grep -q '"embedding":\[-\?0\.[0-9]' vector
    for i in ${!prompts[@]}; do
        check "a server: client $i of five has the text that it gets alone" cmp alone.$i together.$i
        check "a server: it has a text" grep -q '"text":"..' alone.$i
    done
}
serve() { # SIGNAL REGEX
    local mpi url rank from i status=0
    ranks 2 "$EXEC" demo.2 --serve 0 >"$1.log" 2>"$1.err" &
    mpi=$!
    for _ in $(seq 300); do
        url=$(sed -nE 's/^serving .* on (http:[^ ]+) .*/\1/p' "$1.log")
        [ -z "$url" ] || break
        sleep 0.1
    done
    [ "$1" != KILL ] || in_groups
    # The last step that these requests want comes long after the signal.
    for i in 1 2; do
        curl -sS --max-time 400 -o "$1.answer$i" -w '%{http_code} ' -H 'Content-Type: application/json' \
            --data-binary '{"prompt": "ROMEO:", "max_tokens": 240, "temperature": 0, "ignore_eos": true}' \
            "$url/v1/completions" >"$1.status$i" &
    done
    sleep 0.2
    from=$SECONDS
    rank=$(children "$(pgrep -P $mpi -x mpirun || echo $mpi)" | tail -n 1)
    kill "-$1" $rank
    wait || status=$?
    if [ "$(cat "$1.status1" "$1.status2")" = "503 503 " ] && grep -qE "$2" "$1.answer1" && in_time $from 10 &&
        [ "$(grep -c . "$1.err")" -eq 1 ] && grep -qE "^doppler-exec: error: $2" "$1.err"; then
        pass "a server, SIG$1"
    else
        fail "a server, SIG$1" "$(cat "$1".status?) after $((SECONDS - from)) s: $(cat "$1".answer? "$1.err")"
    fi
}
serve KILL 'rank 1 on [^ ]+ has ended: it was killed, or crashed'
serve STOP 'rank 1 on [^ ]+ has not answered for 6 s'
finish
