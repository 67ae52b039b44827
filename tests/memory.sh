# What large models take of the host's memory: the compiler forgets what it has written, the runtime keeps weights on the device only.
# Files with holes, which take no room; arguments: SHAPE TYPE of make_gguf, MiB of the compiler at most, `whole` for the runtime too.
. "$(dirname "$0")/lib.sh"
shape=$1 type=$2 most=$3

# peak FILE COMMAND...: runs it and writes the MiB that were resident at most; 0 if it was too quick to be seen
peak() {
    local file=$1 pid hwm=0 now
    shift
    "$@" &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        now=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null)
        [ "${now:-0}" -gt "$hwm" ] && hwm=$now
        sleep 0.05
    done
    echo "$hwm" >"$file"
    wait $pid
}
below() { # FILE MiB
    [ "$(cat "$1")" -gt 0 ] && [ "$(cat "$1")" -lt "$2" ] || { echo "$(cat "$1") MiB, expected less than $2" && return 1; }
}
check "a model of $shape" "$TOOLS/make_gguf" "$shape" "$type" m.gguf empty
check "compiles" peak compiler "$DOPPLERC" m.gguf -o /dev/null --target tier1 --chunks 16 --quiet
check "in less than $most MiB: $(cat compiler)" below compiler "$most"
rm -f m.gguf
[ "${4:-}" = whole ] || finish
check "a small plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o d.plan --target lavapipe --ctx 256 --chunks 8 --quiet
check "runs" peak runtime "$EXEC" d.plan -p ROMEO: -n 40 --quiet
check "in less than 300 MiB: $(cat runtime)" below runtime 300
finish
