# A server of several models whose device is lost (tests/driver/fake_driver.c): requests in flight are answered with 503 and one line, models
# that were loaded are loaded again on a device that is opened anew, later requests work, and nothing of lost devices is left behind.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "a lost device and several models" "there is no python3"; finish; }
cp "$TOOLS/fake_driver.so" "$TOOLS/fake_driver.json" .
export VK_DRIVER_FILES=$WORK/fake_driver.json VK_ICD_FILENAMES=$WORK/fake_driver.json
unset VK_INSTANCE_LAYERS
mkdir plans
check "compiles" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o plans/a.plan --quiet --target tier1 --chunks 8 --ctx 256 --sequences 2 --rows 2 ||
    finish
cp plans/a.plan plans/b.plan

"$EXEC" --models plans --serve 0 --serve-grace 1 >served 2>said &
server=$!
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; echo "the script ended early"; exit 1' EXIT
url=
for ((i = 0; i < 600; i++)); do
    url=$(grep -o 'http://[0-9.:]*' served | head -n 1)
    [ -z "$url" ] && kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
cat >ask.py <<'PYTHON'
import json, os, sys, threading, time, urllib.error, urllib.request

def post(model, **more):
    body = json.dumps({"model": model, "prompt": "To be", "max_tokens": 12, "ignore_eos": True, **more}).encode()
    request = urllib.request.Request(sys.argv[1] + "/v1/completions", body, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=60)

def ask(model):
    try:
        with post(model) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)

def is_loss(status, answer):
    error = answer.get("error", {})
    return (status == 503 and error["code"] in ("device_failed", "model_failed") and "the device was lost" in error["message"]
            and "\n" not in error["message"])

def lose(after=0): # submissions
    with open("fake_driver.new", "w") as file:
        file.write("x" * after)
    os.rename("fake_driver.new", "fake_driver.lose")

def is_lost():
    return not os.path.exists("fake_driver.lose")

def fine(model):
    status, answer = ask(model)
    assert status == 200, (status, answer)

def settle(model): # a load that failed is tried again after some seconds
    end = time.monotonic() + 60
    while (said := ask(model))[0] != 200:
        assert is_loss(*said) and time.monotonic() < end, said
        time.sleep(0.2)

def in_turn():
    fine("a"), fine("b")
    for model in "aab": # the other one has not noticed
        lose()
        assert is_loss(*ask(model)) and is_lost()
        fine("a"), fine("b")

def in_a_stream():
    lose(after=8)
    with post("a", stream=True, max_tokens=200) as answer:
        rest = answer.read().decode()
    assert '"device_failed"' in rest and "the device was lost" in rest and is_lost(), rest
    fine("a"), fine("b")

def at_once():
    said = []
    def client(model):
        for _ in range(6):
            said.append(ask(model))
    threads = [threading.Thread(target=client, args=(m,)) for m in "abab"]
    for t in threads:
        t.start()
    for _ in range(3):
        lose()
        end = time.monotonic() + 60
        while not is_lost() and any(t.is_alive() for t in threads):
            assert time.monotonic() < end
            time.sleep(0.01)
    for t in threads:
        t.join()
    assert all(s == 200 or is_loss(s, a) for s, a in said), [x for x in said if x[0] != 200]
    if not is_lost():
        assert is_loss(*ask("a"))
    settle("a"), settle("b")
    assert urllib.request.urlopen(sys.argv[1] + "/health").status == 200

{"in_turn": in_turn, "in_a_stream": in_a_stream, "at_once": at_once}[sys.argv[2]]()
PYTHON
ask() { timeout 200 python3 ask.py "$url" "$1"; }
check "one request after the other" ask in_turn
check "while an answer is written" ask in_a_stream
check "while many requests are answered" ask at_once
kill -TERM "$server"
check "the server ends well" wait "$server"
server=
lines() { ! grep -v '^doppler-exec: error: the device was lost (.*--check to find the kernel (vk[A-Za-z]*)$' said && [ "$(wc -l <said)" -ge 5 ]; }
check "each loss was a line" lines
left() { cat fake_driver.left && [ "$(cat fake_driver.left)" = 0 ]; }
check "nothing is left of lost devices" left
finish
