"""Clients of all kinds at once: mixed.py URL N SECONDS MODEL...  Each asks, streams, embeds, leaves, lists, cancels, again and again."""
import http.client
import json
import random
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

url, n, seconds, models = urlsplit(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
until = time.monotonic() + seconds
answers, wrong, lock = {}, [], threading.Lock()


def ask(path, body=None, method=None, leaves=False):
    c = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
    c.request(method or ("POST" if body is not None else "GET"), path, None if body is None else json.dumps(body),
              {"Content-Type": "application/json"})
    if leaves:
        time.sleep(random.random() / 5)
        c.close()
        return None
    r = c.getresponse()
    text = r.read()
    c.close()
    with lock:
        answers[r.status] = answers.get(r.status, 0) + 1
        if r.status >= 500 and r.status != 503:
            wrong.append((path, r.status, text[:300]))
    return json.loads(text) if r.status == 200 and text[:1] == b"{" else None


def half():
    s = socket.create_connection((url.hostname, url.port))
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
    time.sleep(random.random() / 2)
    s.close()


def one(seed):
    r = random.Random(seed)
    while time.monotonic() < until:
        model, tokens = r.choice(models), r.randrange(1, 24)
        text = " ".join(r.choice(["to", "be", "or", "not"]) for _ in range(r.randrange(1, 60)))
        talk = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
        kinds = [
            lambda: ask("/v1/completions", {"model": model, "prompt": text, "max_tokens": tokens, "n": r.randrange(1, 4), "logprobs": 2}),
            lambda: ask("/v1/completions", {"model": model, "prompt": text, "max_tokens": 2, "echo": True, "logprobs": 1}),
            lambda: ask("/v1/chat/completions", {**talk, "stream": True}),
            lambda: ask("/v1/chat/completions", {**talk, "response_format": {"type": "json_object"}}),
            lambda: ask("/v1/chat/completions", {**talk, "max_tokens": 200, "stream": True}, leaves=True),
            lambda: ask("/v1/messages", talk),
            lambda: ask("/v1/embeddings", {"model": model, "input": [text, "a"]}),
            lambda: ask("/v1/rerank", {"model": model, "query": text, "documents": ["a", "b"]}),
            lambda: ask("/tokenize", {"model": model, "content": text}),
            lambda: ask(r.choice(["/metrics", "/health", "/slots", "/props", "/v1/models"])),
            lambda: respond(model, text),
            half,
        ]
        r.choice(kinds)()


def respond(model, text):
    got = ask("/v1/responses", {"model": model, "input": text, "max_output_tokens": 16, "background": random.random() < 0.5})
    if got:
        ask("/v1/responses/" + got["id"])
        if got.get("status") == "in_progress":
            ask("/v1/responses/" + got["id"] + "/cancel", {})
        ask("/v1/responses/" + got["id"], method="DELETE")


threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps(answers), *wrong[:5])
sys.exit(bool(wrong) or not answers.get(200))
