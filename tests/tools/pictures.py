"""A server that has pictures: pictures.py FILE PORT_FILE.  /picture is the file; /away, /round and /file redirect; /long never ends;
/slow sends a byte a second; /empty has no bytes."""
import http.server
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/picture":
            self.answer(200, open(sys.argv[1], "rb").read())
        elif self.path == "/empty":
            self.answer(200, b"")
        elif self.path in ("/away", "/round", "/file"):
            self.send_response(302)
            self.send_header("Location", {"/away": "/picture", "/round": "/round", "/file": "file:///etc/passwd"}[self.path])
            self.end_headers()
        elif self.path in ("/long", "/slow"):
            self.send_response(200)
            self.end_headers()
            part = b"\0" * (1 << 20) if self.path == "/long" else b"\0"
            try:
                while True:
                    self.wfile.write(part)
                    time.sleep(1 if self.path == "/slow" else 0)
            except OSError:
                pass
        else:
            self.answer(404, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[2], "w", encoding="ascii") as file:
    print(server.server_port, file=file)
server.serve_forever()
