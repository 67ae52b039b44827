# Starts a server, asks it and stops it: what scripts about --serve share.  Sourced after lib.sh.
server= url=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; echo "the script ended early"; exit 1' EXIT

# start LOG COMMAND...: starts a server and finds out where it is.
start() {
    : >"$1" # an earlier server's line is not this one's
    "${@:2}" >"$1" 2>&1 &
    server=$!
    for _ in $(seq 3000); do
        url=$(sed -nE 's/^(\{.*"message":"|)serving .* on (http:[^ ]+) .*/\2/p' "$1")
        [ -n "$url" ] && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "the server starts" "$(cat "$1")"
    finish
}
serve() { start "$1.log" "$EXEC" "$1.plan" --serve 0 "${@:2}"; } # NAME [OPTION...]
port() { echo "${url##*:}"; }
stop() { # [NAME]: SIGTERM, and it ends well
    kill -TERM "$server"
    check "${1:-it ends well}" wait "$server"
    server=
}
# ask STATUS TEXT PATH [BODY [CURL OPTION...]]: the answer has this status and contains the text (an extended regular expression).
ask() {
    local status=$1 text=$2 path=$3 body=${4:-} got
    local options=(-sS --max-time 600 -o answer -w '%{http_code}')
    [ -n "$body" ] && options+=(--data-binary "$body")
    [ -n "$body" ] && [[ " ${*:5} " != *Content-Type* ]] && options+=(-H 'Content-Type: application/json')
    got=$(curl "${options[@]}" "${@:5}" "$url$path" 2>&1)
    if [ "$got" = "$status" ] && grep -qE -e "$text" answer; then
        pass "$path ${body:0:70}: $status"
    else
        fail "$path ${body:0:100}" "$got instead of $status and /$text/: $(head -c 600 answer)"
    fi
}
