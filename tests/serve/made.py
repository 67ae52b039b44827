"""A server with models that it compiles when they are asked for (golden/models_made.sh).

python3 made.py URL folder|again|locked|hold|file:[FETCHES] LOCK   prints a line for each thing that is wrong, and how many were right; LOCK: the
file of the cache that whoever compiles locks.
"""
import fcntl
import http.client
import json
import os
import sys
import threading
import time

sys.dont_write_bytecode = True  # of asking.py
from asking import ask, check, end, key as lock, url, what
import asking

asking.key = None


def listed():
    return {m["id"]: m for m in json.loads(ask("/v1/models")[2])["data"]}


def statuses():
    return {name: m["status"] for name, m in listed().items()}


def one(name, stream=False, path="/v1/completions", **more):
    limit = {"messages": [{"role": "user", "content": "x"}]} if path == "/v1/messages" else {"prompt": "ROMEO:"}
    return ask(path, {"model": name, "max_tokens": 2, "temperature": 0, "ignore_eos": True, "stream": stream, **limit, **more})


def at_once(*calls):
    """What calls that run at the same time give."""
    found = [None] * len(calls)

    def run(i):
        found[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


def wait_for(name, status):
    for _ in range(600):
        if statuses()[name] == status:
            return
        time.sleep(0.05)
    check(False, name, "is", statuses()[name], "and not", status)


def leave(name):
    """Asks, and goes away at once."""
    c = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    c.request("POST", "/v1/completions", json.dumps({"model": name, "prompt": "x"}), {"Content-Type": "application/json"})
    time.sleep(0.1)
    c.close()


def folder():
    check(statuses() == dict.fromkeys(("bad", "big", "cut", "ready", "small"), "unloaded"), "names", statuses())
    check("meta" not in listed()["big"], "no context yet")
    check(one("ready")[0] == 200, "a plan among models")
    first, second = at_once(lambda: one("big"), lambda: one("big", stream=True))
    check(first[0] == 200 and json.loads(first[2])["usage"]["completion_tokens"] == 2, "it is compiled", first)
    check(second[0] == 200 and second[2].rstrip().endswith("[DONE]"), "and a stream waits for it", second)
    check(listed()["big"]["status"] == "loaded" and listed()["big"]["meta"]["context"] == 128, "with the options", listed()["big"])
    for name in ("bad", "cut"):
        status, _, text = one(name)
        check(status == 503 and json.loads(text)["error"]["code"] == "model_failed", "one that is none", name, status, text)
        check(statuses()[name] == "failed", "its state", statuses())
    check(one("big")[0] == 200, "the others work on")
    leave("small")
    wait_for("small", "loaded")
    check(one("small")[0] == 200, "who goes away stops nothing")


def again():
    check(one("big")[0] == 200 and one("small")[0] == 200, "they answer")


def locked():
    """Another process has the lock; meanwhile others are served, and streams get comments."""
    with open(lock, "a+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX)

        def others():
            wait_for("small", "compiling")
            check(one("ready")[0] == 200, "others are loaded and answer")
            time.sleep(0.6)
            os.remove("mixed/small/config.json")
            fcntl.lockf(f, fcntl.LOCK_UN)

        plain, stream, messages, _ = at_once(lambda: one("small"), lambda: one("small", True), lambda: one("small", True, "/v1/messages"), others)
        check(plain[0] == 503 and "cannot open" in plain[2], "the answer says why", plain)
        parts = stream[2].split("\n\n")
        check(stream[0] == 200 and parts[0] == ": waiting" and parts[-1] == "", "a stream has begun", stream)
        check(json.loads(parts[-2].removeprefix("data: "))["error"]["code"] == "model_failed", "and says why in an event", stream)
        parts = messages[2].split("\n\n")
        check(messages[0] == 200 and parts[0].startswith("event: ping\n"), "so has one of messages", messages)
        name, data = parts[-2].split("\n")
        check(name == "event: error" and json.loads(data.removeprefix("data: "))["type"] == "error", "in its form", messages)
        check(one("ready")[0] == 200, "the others work on")


def hold():
    """Keeps the lock until it is killed, with a model that waits for it."""
    with open(lock, "a+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX)
        leave("big")
        wait_for("big", "compiling")
        print("held", flush=True)
        time.sleep(60)


def file(fetches):
    check(set(statuses()) == {"one", "two", "wrong", "ready"} | ({"far"} if fetches else set()), "names", statuses())
    check(one("eins")[0] == 200 and one("two")[0] == 200 and one("ready")[0] == 200, "they answer")
    meta = {name: m.get("meta", {}) for name, m in listed().items()}
    check((meta["one"]["context"], meta["one"]["sequences"]) == (64, 2), "options of one", meta["one"])
    check((meta["two"]["context"], meta["two"]["sequences"]) == (96, 1), "options of another", meta["two"])
    status, _, text = one("wrong")
    check(status == 503 and "f99: known are" in text, "an option that is wrong", status, text)
    if fetches:
        check(one("far")[0] == 200 and listed()["far"]["meta"]["context"] == 80, "one that is downloaded", listed()["far"])


name, *arguments = what.split(":")
{"folder": folder, "again": again, "locked": locked, "hold": hold, "file": file}[name](*arguments)
end()
