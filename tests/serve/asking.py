"""What scripts that ask a server share: SCRIPT URL WHAT [KEY] has a server's address, a part of the script, and a key."""
import http.client
import json
import sys
from urllib.parse import urlsplit

url, what = urlsplit(sys.argv[1]), sys.argv[2]
key = sys.argv[3] if len(sys.argv) > 3 else None
right = 0
wrong = 0


def check(good, *about):
    global right, wrong
    if good:
        right += 1
        return
    wrong += 1
    if wrong < 20:
        print("wrong:", *(str(a)[:400] for a in about))


def ask(path, body=None, headers=None, method=None):
    """Status, head and text of an answer; body: JSON, or bytes."""
    c = http.client.HTTPConnection(url.hostname, url.port, timeout=1200)  # a bound for servers that hang, also on a busy machine
    head = {"Content-Type": "application/json", **(headers or {})}
    if key:
        head["X-Api-Key"] = key
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    c.request(method or ("POST" if data is not None else "GET"), path, data, head)
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, text


def end():
    """Prints how many checks were right, and ends the script."""
    print(f"{right} right, {wrong} wrong")
    sys.exit(wrong > 0)
