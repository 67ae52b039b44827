# The commands of README.md and docs/, as they are written there.  Those of the demo model run, but for the two that take long; the others
# have a model of the reader's own, and only that may be what they miss.
. "$(dirname "$0")/../lib.sh"
mkdir bin
ln -s "$DOPPLERC" bin/dopplerc
ln -s "$EXEC" bin/doppler-exec
ln -s "$SRC/examples" examples
PATH=$WORK/bin:$PATH

awk '/^```/ { inside = !inside; next } inside && /^(dopplerc|doppler-exec) / { sub(/ +# .*/, ""); print }' "$SRC/README.md" "$SRC"/docs/*.md |
    awk '!seen[$0]++' >commands # a command that two pages have runs once
n=$(wc -l <commands)
[ "$n" -ge 40 ] && pass "commands are found" || fail "commands are found" "$n of them"

# It names the missing model or plan, a file of the reader's, or what an earlier command makes; wrong usage would be status 2.
theirs='MODEL|Qwen3-0\.6B-Q8_0\.gguf|[a-z.]*(m|small|qwen3|plain|bge|reranker)\.plan|(here|mine)\.yaml|keys'
only_misses_the_model() {
    local status=0
    timeout 60 bash -c "$1" >out 2>err || status=$?
    [ $status -eq 1 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] &&
        grep -qE "^(dopplerc|doppler-exec): ($theirs)[:/].*error: " err && return 0
    echo "status $status"
    cat err
    return 1
}

ran=0
while IFS= read -r line <&3; do
    case $line in
    *"demo.plan --ppl "* | *"demo.plan --check"*) ;; # minutes on a software device: golden.shakespeare and golden.check do it
    *" -hf "*) ;; # asks a server: errors.models has one of its own
    *--cache-list*) check "$line" $line ;;
    *demo.plan*)
        ran=$((ran + 1))
        case $line in *--bench*) line="$line -r 1" ;; esac
        check "$line" timeout 300 bash -c "$line"
        ;;
    *)
        check "$line" only_misses_the_model "$line"
        ;;
    esac
done 3<commands
[ $ran -ge 9 ] && pass "commands of the demo ran" || fail "commands of the demo ran" "$ran of them"
[ -s timeline.html ] && pass "the timeline is there" || fail "the timeline is there"
finish
