"""A service of systemd, as seen by systemd: python3 systemd.py PROGRAM PLAN [OPTION...]

The server gets a listening socket and the address of another one for its messages; it must serve on the first, and say on the
second when it is ready, reloads and stops.
"""
import http.client
import os
import signal
import socket
import sys

messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
messages.bind(name := b"\0doppler-test-%d" % os.getpid())
messages.settimeout(120)
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
child = os.fork()
if child == 0:
    if listener.fileno() != 3:
        os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    out = os.open(os.devnull, os.O_WRONLY)
    os.dup2(out, 1)
    # systemd sets LISTEN_PID to the process that it starts.
    os.execve(sys.argv[1], [*sys.argv[1:], "--serve", "1", "--systemd"],
              {**os.environ, "NOTIFY_SOCKET": "@" + name[1:].decode(), "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})
listener.close()


def told():
    return dict(line.split("=", 1) for line in messages.recv(4096).decode().split("\n"))


def health():
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/health")
    return c.getresponse().status


assert told()["READY"] == "1"
assert health() == 200
os.kill(child, signal.SIGHUP)
reload = told()
assert reload["RELOADING"] == "1" and int(reload["MONOTONIC_USEC"]) > 0
assert told()["READY"] == "1"
assert health() == 200
os.kill(child, signal.SIGTERM)
assert told()["STOPPING"] == "1"
assert os.waitpid(child, 0)[1] == 0
