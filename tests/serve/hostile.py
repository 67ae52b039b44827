"""Clients that mean harm: hostile.py URL WHAT PID.  WHAT: pictures, edits, leaves, workers, bodies, forms, queue.

After each attack the server has grown by at most 64 MB at its peak, and answers others."""
import base64
import re
import socket
import struct
import sys
import threading
import time
import zlib

pid = int(sys.argv[3])
sys.argv[3:] = []
from asking import ask, check, end, url, what  # noqa: E402

MB = 1 << 20


def status(field):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(field + r":\s+(\d+) kB", f.read())[1]) * 1024


def reset_peak():
    with open(f"/proc/{pid}/clear_refs", "w") as f:
        f.write("5")
    return status("VmHWM")


def grown(before, name, limit=64 * MB):
    n = status("VmHWM") - before
    check(n <= limit, name, f"{n / 1e6:.0f} MB more")


def seconds():
    """Processor time of the server."""
    with open(f"/proc/{pid}/stat") as f:
        at = f.read().rsplit(")", 1)[1].split()
    return (int(at[11]) + int(at[12])) / 100


# --- files that are small and cost much ---------------------------------------------------------------------------------------

def webp(w, h):
    """36 bytes: one color, in codes of no bits."""
    bits, n = 0, 0
    for value, size in [(0x2F, 8), (w - 1, 14), (h - 1, 14), (0, 1), (0, 3), (0, 1), (0, 1), (0, 1)] + [(1, 1), (0, 1), (0, 1), (0, 1)] * 5:
        bits |= value << n
        n += size
    data = bits.to_bytes(16, "little")
    return b"RIFF" + struct.pack("<I", 28) + b"WEBPVP8L" + struct.pack("<I", 16) + data


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(w, h, interlaced=0, more=b""):
    row = b"\0" * (1 + (w + 7) // 8)
    z = zlib.compressobj(9)
    if interlaced:
        size = sum((1 + (-(-(w - x) // dx) + 7) // 8) * -(-(h - y) // dy) for x, y, dx, dy in
                   [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)])
        data = z.compress(b"\0" * size) + z.flush()
    else:
        data = b"".join(z.compress(row) for _ in range(h)) + z.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 1, 0, 0, 0, interlaced))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png_texts(n):
    """Chunks that become a megabyte each."""
    text = zlib.compress(b"x" * 1000000, 9)
    return png(8, 8, 0, b"".join(chunk(b"zTXt", b"k%d\0\0" % i + text) for i in range(n)))


def gif(w, h):
    """Runs that each code makes longer by one pixel."""
    codes, width, nxt, bits, n, pixels = [], 3, 6, 0, 0, 0

    def put(code):
        nonlocal bits, n
        bits |= code << n
        n += width
    put(4)
    put(0)
    pixels, length = 1, 1
    out = bytearray()
    while pixels < w * h:
        put(nxt if nxt < 4096 else 4095)
        if nxt < 4096:
            length += 1
            nxt += 1
            if nxt == 1 << width and width < 12:
                width += 1
        pixels += length
        while n >= 8:
            out.append(bits & 255)
            bits >>= 8
            n -= 8
    out.append(bits & 255)
    out += b"\0\0"
    blocks = b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255))
    return b"GIF89a" + struct.pack("<HHBBB", w, h, 0x81, 0, 0) + bytes(12) + b"," + struct.pack("<HHHHB", 0, 0, w, h, 0) + b"\2" + blocks + b"\0;"


def jpeg(w, h, scans, parts=1):
    """A progressive picture of `parts` components with scans that say that there is nothing, in runs of up to 32767 blocks."""
    def segment(mark, data):
        return b"\xff" + bytes([mark]) + struct.pack(">H", len(data) + 2) + data
    blocks = -(-w // 8) * -(-h // 8)
    runs, left = "", blocks
    while left > 0:
        size = min(left.bit_length() - 1, 14)
        runs += format(size, "04b") + (format(min(left, 2 ** (size + 1) - 1) - 2 ** size, f"0{size}b") if size else "")
        left -= min(left, 2 ** (size + 1) - 1)
    runs += "1" * (-len(runs) % 8)
    data = int(runs, 2).to_bytes(len(runs) // 8, "big").replace(b"\xff", b"\xff\0")
    out = b"\xff\xd8" + segment(0xDB, b"\0" + bytes([1] * 64))
    out += segment(0xC2, struct.pack(">BHHB", 8, h, w, parts) + b"".join(bytes([i + 1, 0x11, 0]) for i in range(parts)))
    # codes of four bits: EOB0 to EOB14
    out += segment(0xC4, b"\x10" + bytes([0, 0, 0, 15] + [0] * 12) + bytes(i << 4 for i in range(15)))
    out += segment(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0")
    for i in range(scans):
        k = 1 + i % 63
        out += segment(0xDA, bytes([1, 1 + i % parts, 0, k, k, 0])) + data
    return out + b"\xff\xd9"


def data_url(data, kind="png"):
    return f"data:image/{kind};base64," + base64.b64encode(data).decode()


def chat(data):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": data_url(data)}}]}], "max_tokens": 2}


def messages(data):
    return "/v1/messages", {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}}]}]}


def responses(data):
    return "/v1/responses", {"model": "m", "max_output_tokens": 16, "input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": data_url(data)}]}]}


BOMBS = {
    "webp": (400, webp(8192, 8192)), "wide webp": (400, webp(16383, 2000)), "png": (400, png(8192, 8192)),
    "interlaced png": (400, png(8000, 8000, 1)), "png of many texts": (200, png_texts(300)), "gif": (400, gif(8000, 8000)),
    "progressive jpeg": (400, jpeg(8192, 8192, 256)), "jpeg of three parts": (400, jpeg(5000, 4000, 3, 3)),
    "long gif": (400, gif(32767, 1000)),
}


def pictures():
    assert len(webp(8192, 8192)) == 36
    for name, (want, data) in BOMBS.items():
        for form in chat, messages, responses:
            before = reset_peak()
            used = seconds()
            got, _, text = ask(*form(data))
            check(got == want or (want == 200 and got == 400 and "aspect" in text), name, form.__name__, got, text)
            check(seconds() - used < 4, name, form.__name__, f"{seconds() - used:.1f} s of processor time")
            grown(before, name + " " + form.__name__)
    # What is large and harmless is read.
    for name, data in {"jpeg": jpeg(4000, 3000, 2), "png": png(4000, 3000), "gif": gif(4000, 3000), "webp": webp(2500, 2500)}.items():
        got, _, text = ask(*chat(data))
        check(got == 200 or "tokens" in text or "context" in text, "ordinary " + name, got, text)


def form(path, files, length=None):
    body = b"".join(b"--b\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n%s\r\n" % (
        n.encode(), b"; filename=\"f\"" if n in ("image", "mask", "file") else b"", v) for n, v in files) + b"--b--\r\n"
    return ask(path, body, {"Content-Type": "multipart/form-data; boundary=b"})


def edits():
    for name in "webp", "interlaced png", "gif", "progressive jpeg", "png of many texts":
        want, data = BOMBS[name]
        before = reset_peak()
        got, _, text = form("/v1/images/edits", [("prompt", b"a"), ("n", b"1"), ("image", data)])
        check(got == want, name, got, text)
        grown(before, name)
        got, _, text = ask("/v1/images/generations", {"prompt": "a", "init": data_url(data)})
        check(got == want, name, "init", got, text)
        if want == 400:
            got, _, text = form("/v1/images/edits", [("prompt", b"a"), ("image", png(8, 8)), ("mask", data)])
            check(got == 400, name, "mask", got, text)
        grown(before, name + " and mask")


def post(path, body, kind="application/json", length=None):
    s = socket.create_connection((url.hostname, url.port))
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: "
              f"{len(body) if length is None else length}\r\n\r\n".encode() + body)
    return s


def slow_pictures(n):
    """Requests that each take long to read, in small bodies."""
    import json
    path, body = chat(jpeg(5792, 5792, 255))
    body = json.dumps(body).encode()
    assert len(body) < 65536, len(body)
    return [post(path, body) for _ in range(n)]


def settle(since):
    """Processor time since then, when the server has nothing to do any more."""
    last = -1
    while seconds() != last:
        last = seconds()
        time.sleep(1)
    return last - since


def leaves():
    """What nobody waits for is not computed."""
    used = seconds()
    s = slow_pictures(1)[0]
    s.recv(100)
    s.close()
    whole = settle(used)
    used = seconds()
    list_of = slow_pictures(6)
    time.sleep(0.2)
    for s in list_of:
        s.close()
    left = settle(used)
    check(left < 3 * whole, f"{left:.1f} s of processor time for 6 clients that left, {whole:.1f} s for one that stayed")


def workers():
    list_of = slow_pictures(8)
    time.sleep(0.3)
    for _ in range(5):
        begin = time.monotonic()
        got, _, text = ask("/tokenize", {"content": "a"})
        check(got == 200 and time.monotonic() - begin < 10, got, text, time.monotonic() - begin)
    for s in list_of:
        s.close()


def bodies():
    before = reset_peak()
    n, piece, list_of = 24 * MB, b" " * (1 << 16), []
    for i in range(40):
        s = post("/v1/chat/completions", b"{", length=n) if i % 2 else socket.create_connection((url.hostname, url.port))
        if i % 2 == 0:  # of unknown length
            s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                      b"%x\r\n{" % n)
        s.setblocking(False)
        list_of.append([s, 0])
    until = time.monotonic() + 3
    while time.monotonic() < until:
        moved = 0
        for one in list_of:
            try:
                k = one[0].send(piece) if one[1] < n - MB else 0
            except OSError:
                k = 0
            one[1] += k
            moved += k
        if not moved:
            time.sleep(0.01)
    grown(before, "40 halves of bodies")
    got, _, text = ask("/tokenize", {"content": "a"})
    check(got == 200, got, text)
    begin = time.monotonic()
    got, _, text = ask("/tokenize", b'{"content": "' + b"a" * (2 * MB) + b'"}')
    check(got in (200, 400) and time.monotonic() - begin < 10, "a body of somebody else", got, text, time.monotonic() - begin)
    grown(before, "40 halves of bodies, and one more")
    for s, _ in list_of:
        s.close()


def forms():
    """What the model cannot do is refused before a body comes."""
    for path, text in ("/v1/images/edits", "draws no pictures"), ("/v1/audio/transcriptions", "hears nothing"), \
            ("/v1/audio/translations", "hears nothing"):
        s = post(path, b"--b\r\n", "multipart/form-data; boundary=b", 25 * MB)
        s.settimeout(20)
        got = s.recv(4096).decode()
        check(got.startswith("HTTP/1.1 400") and text in got, path, got)
        s.close()


def queue():
    """A client that fills the queue, and others."""
    counts, lock = {}, threading.Lock()

    def one(client, tokens, n=1):
        got, head, text = ask("/v1/completions", {"prompt": "a", "max_tokens": tokens, "ignore_eos": True, "n": n}, {"X-Api-Key": client})
        with lock:
            counts[client, got] = counts.get((client, got), 0) + 1
        return got, text
    list_of = [threading.Thread(target=one, args=("greedy", 500)) for _ in range(20)]
    for t in list_of:
        t.start()
    while counts.get(("greedy", 429), 0) < 8:  # 4 are answered, 8 wait
        time.sleep(0.05)
    check(one("low", 2)[0] == 429, "a lower priority gets no place")
    check(one("greedy", 2)[0] == 429, "the greediest client gets no other place")
    modest = [threading.Thread(target=one, args=("modest", 2)) for _ in range(2)] + [threading.Thread(target=one, args=("vip", 2))]
    for t in modest + list_of:
        if t in modest:
            t.start()
    for t in modest + list_of:
        t.join()
    check(counts.get(("modest", 200)) == 2 and counts.get(("vip", 200)) == 1, counts)
    check(counts.get(("greedy", 200)) == 9 and counts.get(("greedy", 429)) == 12, counts)


globals()[what]()
end()
