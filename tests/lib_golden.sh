# One golden model (a folder with expected.json and logits.f32) against its reference.  Run by ctest with the model's
# folder and what to do as arguments: `plain`, as most people compile it and with a cache that loses nothing, or
# `again`, in the other ways that must not change the answer (with `f16` after it, in one more); `fused` and
# `unfused` are the logits in every schedule, with fusion and without, and `by_token` and `by_chunk` those of one schedule with
# fusion (with `layers` after it, dispatches are counted); `second` and one of these two is that with ids and --check on
# SwiftShader, and without them on lavapipe where SwiftShader is not installed.
. "$(dirname "$0")/lib.sh"
model=$1
expected=$model/expected.json

ids() { # NAME PLAN [OPTION...]: the greedy ids of the prompt
    "$EXEC" "$2" --quiet --tokens-file prompt --temp 0 --ignore-eos --print-ids \
        -n "$("$TOOLS/expect" count "$expected" .)" "${@:3}" >"$1.ids"
}

# agree NAME BOUND MARGIN [OPTION...]: compiles with the options; logits, teacher-forced steps and generated ids agree
# with the reference.
agree() {
    local name=$1 bound=$2 margin=$3
    shift 3
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet "$@" || return
    check "$name: runs" ids "$name" "$name.plan" --logits "$name.f32" || return
    check "$name: logits" "$TOOLS/expect" logits "$expected" . "$model/logits.f32" "$name.f32" "$bound"
    check "$name: generated ids" "$TOOLS/expect" ids "$expected" . "$name.ids" "$margin"
    check "$name: runs on the whole text" "$EXEC" "$name.plan" --quiet --tokens-file forced -n 0 --logits forced.f32 &&
        check "$name: best id of every step" "$TOOLS/expect" argmax "$expected" . forced.f32 "$margin"
}

"$TOOLS/expect" tokens "$expected" . >prompt
"$TOOLS/expect" forced "$expected" . >forced

most=5
case $(basename "$model") in
cohere2) most=3 ;;                            # both products that follow the one norm meet in the stream
gpt_neox) most=4 ;;                           # ... and attention and the feed-forward part, with a norm each
falcon_h1) most=6 ;;                          # attention and state space side by side
falcon_h1_norm) most=7 ;;                     # ... and a norm of the state space's groups
mixtral | qwen3_moe | gpt_oss | olmoe | minimax_m2) most=6 ;; # the router, and two products of the experts
qwen2_moe | qwen3_next | ernie4_5_moe | glm4_moe | granitemoehybrid) most=6 ;; # ... which the shared expert joins
llama4_text) most=7 ;;                        # an expert whose products are weighed, and the shared expert
gemma4_moe) most=7 ;;                         # dense and experts side by side: a second product of each
deepseek_v3) most=7 ;;                        # low ranks: a product more for queries
esac

layers() { # PLAN: what --info says of decoding
    "$EXEC" "$1" --info | grep -oE '^schedules +decode1: .* in each of' | grep -oE '[0-9]+ in each' >layers &&
        [ "$(cut -d ' ' -f 1 layers)" -le $most ]
}

scored() { # NAME
    "$EXEC" "$1.plan" --quiet --tokens-file prompt -n 0 --logits "$1.f32"
}

# one_way NAME CHUNK [layers]
one_way() {
    check "$1: compiles" "$DOPPLERC" "$model" -o "$1.plan" --quiet --kv f32 --chunks "$2" || return
    check "$1: runs" scored "$1" &&
        check "$1: logits" "$TOOLS/expect" logits "$expected" . "$model/logits.f32" "$1.f32" 5e-4
    [ -z "${3:-}" ] || check "at most $most dispatches per layer" layers "$1.plan"
}

kernels_agree() {
    tail -n 1 checked | grep '^\([1-9][0-9]*\) of \1 kernels agree with the reference on SwiftShader'
}

# second NAME CHUNK [layers]: on SwiftShader.  One process, because a driver's making of kernels is most of the time; 8 ids, because
# a token takes 20 ms.
second() {
    check "$1: compiles" "$DOPPLERC" "$model" -o "$1.plan" --quiet --kv f32 --chunks "$2" \
        --target "$SRC/tests/drivers/swiftshader.yaml" || return
    check "$1: runs" sh -c '"$@" >checked' sh "$TOOLS/second" "$1.plan" prompt 8 "$1.f32" "$1.ids" check || return
    check "$1: logits" "$TOOLS/expect" logits "$expected" . "$model/logits.f32" "$1.f32" 5e-4
    check "$1: first generated ids" "$TOOLS/expect" first "$expected" . "$1.ids" 0.01 8
    check "$1: kernels agree" kernels_agree
    [ -z "${3:-}" ] || check "at most $most dispatches per layer" layers "$1.plan"
}

# way NAME [layers]
way() {
    case $1 in
    by_token)
        one_way by_token 1 "${2:-}" && check "by_token: generates" ids by_token by_token.plan &&
            check "by_token: generated ids" "$TOOLS/expect" ids "$expected" . by_token.ids 0.01
        ;;
    by_chunk) one_way by_chunk 7 "${2:-}" ;;
    esac
}

case $2 in
by_token | by_chunk) way "${@:2}" ;;
second)
    . "$SRC/tests/drivers/lib_swiftshader.sh"
    # tests/run.sh names a driver, but for --gpu, which asks the machine's own.
    if [ -z "${VK_ICD_FILENAMES:-}" ]; then
        way "${@:3}"
    elif use_swiftshader; then
        second "$3" "$([ "$3" = by_token ] && echo 1 || echo 7)" "${4:-}"
    else
        skip "on SwiftShader" "$no_swiftshader"
        way "${@:3}"
    fi
    ;;
fused | unfused)
    [ "$2" = fused ] && options= || options=--no-fuse
    # shellcheck disable=SC2086
    check "$2: compiles" "$DOPPLERC" "$model" -o "$2.plan" --quiet --kv f32 --chunks 7 $options &&
        check "$2: logits" "$TOOLS/agree" "$2.plan" forced 5e-4 "$model/logits.f32"
    ;;
plain)
    agree f32 5e-4 0.01 --kv f32
    agree default 2e-2 0.1
    check "default: at most $most dispatches per layer" layers default.plan
    ;;
again)
    # Every schedule: token by token, chunks with a shorter one at the end, all positions scored.
    ways=("f32-unfused 5e-4 --kv f32 --no-fuse" "f32-chunks-of-7 5e-4 --kv f32 --chunks 7")
    # What is not fused differs by a cache in 16 bits in attention alone, of which these have every kind.
    [ -z "${3:-}" ] || ways+=("default-unfused 2e-2 --no-fuse")
    # Weights in pieces that fit into small allocations: experts, tables and the LM head.
    if [ "$(basename "$model")" = mixtral ]; then
        printf 'base: lavapipe\nmax_alloc: 16384\n' >small.yaml
        ways+=("f32-in-pieces 5e-4 --kv f32 --chunks 7 --ctx 64 --target small.yaml")
    fi
    for way in "${ways[@]}"; do
        read -r name bound options <<<"$way"
        # shellcheck disable=SC2086
        check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet $options &&
            check "$name: logits" "$TOOLS/agree" "$name.plan" forced "$bound" "$model/logits.f32"
    done
    check "f32-unfused: generates" ids f32-unfused f32-unfused.plan &&
        check "f32-unfused: generated ids" "$TOOLS/expect" ids "$expected" . f32-unfused.ids 0.01
    ;;
esac
finish
