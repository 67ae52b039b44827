# examples/serve: the unit as systemd reads it, two servers behind HAProxy, and the steps of the container file in bare roots
# (there need be no network and no container engine: packages are those that are installed here, for apt-get install).
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_chroot.sh"
here=$SRC/examples/serve
demo=$SRC/examples/shakespeare-gemma3
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; echo "the script ended early"; exit 1' EXIT
check "a plan" "$DOPPLERC" "$demo" -o demo.plan --ctx 256 --chunks 32 --sequences 8 --rows 8 --target lavapipe --quiet

if ! command -v systemd-analyze >/dev/null; then
    skip "the unit" "there is no systemd-analyze"
else
    sed "s|/usr/local/bin/doppler-exec|$EXEC|" "$here/doppler.service" >doppler@.service
    check "the unit" sh -c 'systemd-analyze verify ./doppler@8080.service >unit.log 2>&1 && ! grep -F doppler@ unit.log'
fi

if ! command -v haproxy >/dev/null; then
    skip "two servers behind HAProxy" "there is no haproxy"
else
    check "two servers behind HAProxy" bash "$here/try.sh" "$EXEC" demo.plan
fi

if ! can_chroot; then
    skip "the steps of the container file" "needs root and a Debian"
    finish
    exit
fi
inside() { chroot "$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/root LC_ALL=C.UTF-8 "${@:2}"; }
# What stands behind apt-get install in the n-th stage, and the commands that build, as the file has them.
joined=$(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$here/Containerfile")
runtime=$(echo "$joined" | sed -nE 's/.*--no-install-recommends +(libvulkan1[^&]*)&&.*/\1/p')
steps=$(echo "$joined" | sed -nE 's/.*(cmake -S \/src .*)/\1/p')
if [ -z "$runtime" ] || [ -z "$steps" ]; then
    fail "the container file has its two stages"
    finish
fi
# What is in every Debian image; then what the file installs.
base=$(dpkg-query -W -f '${Package} ${Priority}\n' | awk '$2 == "required" { print $1 }')
# shellcheck disable=SC2046,SC2086 # words
bare_root "$WORK/build" $base $(bash -c '. "$1/tests/lib_packages.sh" && package_names build' sh "$SRC")
mkdir -p "$WORK/build/src" "$WORK/build/root"
(cd "$SRC" && tar -cf - --exclude='./build*' --exclude=./.git .) | tar -C "$WORK/build/src" -xf -
inside "$WORK/build" ldconfig
check "the build stage" inside "$WORK/build" sh -c "$steps"

# shellcheck disable=SC2086 # words
bare_root "$WORK/run" $base $runtime
mkdir -p "$WORK/run/usr/local/bin" "$WORK/run/usr/local/lib" "$WORK/run/plans" "$WORK/run/home/doppler"
cp "$WORK/build/usr/local/bin/doppler-exec" "$WORK/run/usr/local/bin/"
cp -r "$WORK/build/usr/local/lib/." "$WORK/run/usr/local/lib/"
cp demo.plan "$WORK/run/plans/model.plan"
chown 999:999 "$WORK/run/home/doppler"
chmod 1777 "$WORK/run/tmp"
inside "$WORK/run" ldconfig
# The entry point with PLAN behind it, but for a port that is free.
entry=$(sed -nE 's/^ENTRYPOINT \[(.*)\]$/\1/p' "$here/Containerfile" | sed 's/0\.0\.0\.0:8080/0.0.0.0:18641/')
script=$(printf '%s' "$entry" | sed -E 's/^"([^"]*)", "([^"]*)", "(.*)", "([^"]*)"$/\3/; s/\\"/"/g')
chroot --userspec=999:999 "$WORK/run" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin HOME=/home/doppler \
    /bin/sh -c "$script" doppler /plans/model.plan >served.log 2>&1 &
server=$!
for _ in $(seq 600); do
    curl -sf http://127.0.0.1:18641/health >health && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
check "the runtime stage serves, as a user without rights" grep -q '"ok"' health
check "and answers" sh -c \
    'curl -s -H "Content-Type: application/json" http://127.0.0.1:18641/v1/completions -d "{\"prompt\": \"ROMEO:\", \"max_tokens\": 4}" |
     grep -q "\"finish_reason\":\"length\""'
kill -TERM "$server"
check "and ends by its stop signal" wait "$server"
server=
cat served.log
rm -rf "$WORK/build" "$WORK/run"
finish
