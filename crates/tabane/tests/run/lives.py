"""Programs that live on while connections break: `lives.py serve ADDRESS PORT` echoes to whoever
comes, one after the other; `lives.py connect ADDRESS PORT` connects, says hello, waits for the end,
and connects again; `lives.py late ADDRESS PORT` is a server that begins to listen when it is told
to (by a line); `lives.py talk ADDRESS PORT` connects, and says every line that it is told. All print
what they see."""

import errno
import socket
import sys


def say(*what):
    print(*what, flush=True)


def until_the_end(s, echoes):
    """How a connection ends."""
    try:
        while True:
            data = s.recv(1 << 16)
            if not data:
                return "ended"
            if echoes:
                s.sendall(data)
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)


def serve(end):
    listener = socket.create_server(end, reuse_port=False)
    say("listens")
    while True:
        s, _ = listener.accept()
        with s:
            say("server:", until_the_end(s, True))


def late(end):
    say("waits")
    sys.stdin.readline()
    serve(end)


def connect(end):
    while True:
        try:
            s = socket.create_connection(end)
        except (ConnectionRefusedError, ConnectionResetError):
            # Whoever is to accept it may not be back yet.
            continue
        with s:
            try:
                s.sendall(b"hello")
                say("echoed", s.recv(100))
            except ConnectionResetError:
                say("lost")
                continue
            say("client:", until_the_end(s, False))


def talk(end):
    with socket.create_connection(end) as s:
        for line in sys.stdin:
            try:
                s.sendall(line.encode())
                say("echoed", s.recv(100))
            except OSError as e:
                say("client:", errno.errorcode.get(e.errno, type(e).__name__))
                return


if __name__ == "__main__":
    side, address, port = sys.argv[1:]
    {"serve": serve, "connect": connect, "late": late, "talk": talk}[side]((address, int(port)))
