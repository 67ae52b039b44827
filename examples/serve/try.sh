#!/bin/bash
# haproxy.cfg over two servers on this machine:   try.sh DOPPLER_EXEC PLAN
# Streams go through as they come, conversations stay where they began, a server that ends finishes what it has and gets
# nothing more, and nobody notices.
set -euo pipefail
exec=$1 plan=$2 streams=() here=$(cd "$(dirname "$0")" && pwd) tmp=$(mktemp -d) pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$tmp"' EXIT
for port in 8081 8082; do
    "$exec" "$plan" --serve $port >"$tmp/$port" 2>&1 &
    pids+=($!)
done
for port in 8081 8082; do
    for _ in $(seq 300); do grep -q serving "$tmp/$port" && break; sleep 0.1; done
    grep serving "$tmp/$port" || { cat "$tmp/$port" >&2 && exit 1; }
done
haproxy -f "$here/haproxy.cfg" >"$tmp/haproxy" 2>&1 &
pids+=($!)
for _ in $(seq 100); do curl -sf http://127.0.0.1:8080/health >/dev/null && break; sleep 0.1; done

ask() { # CONVERSATION BODY
    curl -sSN --fail-with-body -H 'Content-Type: application/json' -H "X-Conversation: $1" http://127.0.0.1:8080/v1/completions -d "$2"
}
answered() { curl -s "http://127.0.0.1:$1/metrics" | awk '/^doppler_jobs_total/ { n += $2 } END { print n }'; }
a=0 b=0
for name in one two three four five six seven eight; do
    for _ in 1 2 3; do ask $name '{"prompt": "Speak", "max_tokens": 4}' >/dev/null; done
    was_a=$a was_b=$b a=$(answered 8081) b=$(answered 8082)
    echo "$name: 8081 answered $((a - was_a)), 8082 $((b - was_b))"
    [ $((a - was_a)) -eq 3 ] || [ $((b - was_b)) -eq 3 ] || { echo "a conversation moved" >&2 && exit 1; }
done
[ "$a" -gt 0 ] && [ "$b" -gt 0 ] || { echo "one server got everything" >&2 && exit 1; }
ask one '{"prompt": "Speak", "max_tokens": 20, "stream": true}' | grep -c '^data: ' | sed 's/$/ events of a stream/'
for name in one two three four five six; do
    ask $name '{"prompt": "Speak", "max_tokens": 150, "stream": true, "ignore_eos": true}' >"$tmp/stream.$name" &
    streams+=($!)
done
sleep 1
kill -TERM "${pids[0]}"
echo "8081 is ending"
for i in $(seq 10); do ask "after-$i" '{"prompt": "Speak", "max_tokens": 4}' >/dev/null; done
echo "10 more conversations were answered"
wait "${streams[@]}"
for name in one two three four five six; do
    tail -n 2 "$tmp/stream.$name" | grep -q DONE || { echo "stream $name was cut" >&2 && exit 1; }
    echo "stream $name ended whole"
done
