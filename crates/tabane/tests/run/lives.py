"""Programs that live on while connections break: `lives.py serve ADDRESS PORT` echoes to whoever
comes, one after the other; `lives.py connect ADDRESS PORT` connects, says hello, waits for the end,
and connects again; `lives.py late ADDRESS PORT` is a server that begins to listen when it is told
to (by a line); `lives.py talk ADDRESS PORT` connects, and says every line that it is told;
`lives.py pour ADDRESS PORT` sends to whoever comes without an end, and `lives.py drain ADDRESS PORT`
connects and reads, again and again. All print what they see."""

import errno
import socket
import sys


def say(*what):
    print(*what, flush=True)


def until_the_end(s, echoes, flows_at=None):
    """How a connection ends; tells when so many bytes have come."""
    got = 0
    try:
        while True:
            data = s.recv(1 << 16)
            if not data:
                return "ended"
            got += len(data)
            if flows_at is not None and got >= flows_at:
                say("flows")
                flows_at = None
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


def connected(end):
    while True:
        try:
            return socket.create_connection(end)
        except (ConnectionRefusedError, ConnectionResetError):
            # Whoever is to accept it may not be back yet.
            continue


def pour(end):
    listener = socket.create_server(end)
    say("listens")
    block = bytes(1 << 20)
    while True:
        s, _ = listener.accept()
        with s:
            try:
                while True:
                    s.sendall(block)
            except OSError:
                pass


def drain(end):
    while True:
        with connected(end) as s:
            say("client:", until_the_end(s, False, 8 << 20))


def connect(end):
    while True:
        with connected(end) as s:
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
    sides = [serve, connect, late, talk, pour, drain]
    {f.__name__: f for f in sides}[side]((address, int(port)))
