"""A server with the part of huggingface.co's interface that doppler-exec -hf uses.

    hub.py ROOT [--token TOKEN] [--cut BYTES] [--whole] [--refuse] [--shift] [--lie] [--busy]

ROOT/USER/REPO are the models.  Prints its port.  Every request is a line in ROOT/log.
--token   who has none is refused
--cut     the first answer with a file is broken off after so many bytes
--whole   ranges are not supported
--refuse  and asking for them is an error
--shift   they are answered with bytes from elsewhere
--lie     digests of large files (.gguf, .safetensors) are wrong
--busy    the first request is an error that may pass
"""
import argparse
import hashlib
import http.server
import json
import os
import urllib.parse

options = argparse.ArgumentParser()
options.add_argument("root")
options.add_argument("--token")
options.add_argument("--cut", type=int, default=0)
options.add_argument("--whole", action="store_true")
options.add_argument("--refuse", action="store_true")
options.add_argument("--busy", action="store_true")
options.add_argument("--shift", action="store_true")
options.add_argument("--lie", action="store_true")
o = options.parse_args()
PAGE = 5  # files in one answer


def entry(folder, path):
    with open(os.path.join(folder, path), "rb") as f:
        data = f.read()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    e = {"type": "file", "path": path, "size": len(data), "oid": blob}
    if path.endswith((".gguf", ".safetensors")):
        digest = hashlib.sha256(b"lie" if o.lie else data).hexdigest()
        e["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    return e


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tree(self, repo, query):
        folder = os.path.join(o.root, repo)
        if not os.path.isdir(folder):
            return self.answer(404)
        names = sorted(os.path.relpath(os.path.join(d, n), folder) for d, _, files in os.walk(folder) for n in files)
        at = int(query.get("cursor", ["0"])[0])
        headers = []
        if at + PAGE < len(names):
            more = "http://%s%s?recursive=true&cursor=%d" % (self.headers["Host"], self.path.split("?")[0], at + PAGE)
            headers.append(("Link", '<%s>; rel="next"' % more))
        self.answer(200, json.dumps([entry(folder, n) for n in names[at : at + PAGE]]).encode(), headers)

    def file(self, path):
        try:
            with open(os.path.join(o.root, path), "rb") as f:
                data = f.read()
        except OSError:
            return self.answer(404)
        wanted = self.headers.get("Range")
        if wanted and o.refuse:
            return self.answer(416)
        first = int(wanted[len("bytes=") : -1]) if wanted and not o.whole else 0
        headers = [("Content-Range", "bytes %d-%d/%d" % (first, len(data) - 1, len(data)))] if first else []
        if o.cut and o.cut < len(data) - first:
            self.send_response(206 if first else 200)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data) - first))
            self.end_headers()
            self.wfile.write(data[first : first + o.cut])
            o.cut = 0
            self.close_connection = True
            return None
        body = data[:-first] if first and o.shift else data[first:]
        return self.answer(206 if first else 200, body, headers)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        with open(os.path.join(o.root, "log"), "a") as log:
            log.write("%s %s\n" % (self.path, self.headers.get("Range", "")))
        if o.busy:
            o.busy = False
            return self.answer(503)
        if o.token and self.headers.get("Authorization") != "Bearer " + o.token:
            return self.answer(401)
        parts = [urllib.parse.unquote(p) for p in url.path.strip("/").split("/")]
        if parts[:2] == ["api", "models"] and parts[4] == "tree":
            return self.tree("/".join(parts[2:4]), urllib.parse.parse_qs(url.query))
        if parts[2] == "resolve":
            # as the hub does for large files: to another address
            return self.answer(302, headers=[("Location", "/files/" + "/".join(parts[:2] + parts[4:]))])
        if parts[0] == "files":
            return self.file("/".join(parts[1:]))
        return self.answer(404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
