"""A client of NATS, by the text protocol alone.

    nats.py create HOST
    nats.py listen HOST COUNT
    nats.py publish HOST,HOST FIRST LAST
    nats.py read HOST COUNT
"""
import base64
import json
import secrets
import socket
import sys
import time

# Longer than anything a server is waited for takes.
PATIENCE_S = 60


class Connection:
    """To the first of some servers that is there."""

    def __init__(self, hosts):
        self.socket, self.inbox = None, f"answers.{secrets.token_hex(8)}"
        for host in hosts:
            try:
                self.socket = socket.create_connection((host, 4222), timeout=PATIENCE_S)
                break
            except ConnectionRefusedError:
                pass
        if self.socket is None:
            raise ConnectionRefusedError
        # A question goes at once, also behind something that is not answered.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        assert self.file.readline().startswith(b"INFO ")
        options = {"verbose": False, "pedantic": False, "headers": True}
        self.send(f"CONNECT {json.dumps(options)}\r\nSUB {self.inbox} 1\r\n")

    def line(self):
        while True:
            line = self.file.readline()
            if not line:
                raise ConnectionResetError
            line = line.decode().rstrip("\r\n")
            if line == "PING":
                self.send("PONG\r\n")
            elif not line.startswith(("INFO ", "PONG", "+OK")):
                return line

    def send(self, text):
        self.socket.sendall(text.encode())

    def message(self):
        """The next one's headers and content."""
        words = self.line().split(" ")
        assert words[0] in ("MSG", "HMSG"), words
        content = self.file.read(int(words[-1]) + 2)[:-2]
        headers = int(words[-2]) if words[0] == "HMSG" else 0
        return content[:headers].decode(), content[headers:].decode()

    def ask(self, subject, text, headers=""):
        reply = self.inbox
        if headers:
            headers = f"NATS/1.0\r\n{headers}\r\n\r\n"
            self.send(f"HPUB {subject} {reply} {len(headers)} {len(headers + text)}\r\n{headers}{text}\r\n")
        else:
            self.send(f"PUB {subject} {reply} {len(text)}\r\n{text}\r\n")
        headers, answer = self.message()
        if headers.startswith("NATS/1.0 503"):
            # Nobody leads at the moment.
            raise BlockingIOError(headers)
        answer = json.loads(answer)
        if "error" in answer:
            raise BlockingIOError(answer["error"])
        return answer


def until_done(hosts, what):
    """While nobody leads, a server may not answer; a server that ends breaks off. Both are tried again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = Connection(hosts)
            connection.socket.settimeout(3)
            return what(connection)
        except (BlockingIOError, OSError) as error:
            if time.monotonic() > until:
                raise
            print("again:", repr(error), file=sys.stderr)
            time.sleep(0.1)


def create(hosts):
    stream = {"name": "NUMBERS", "subjects": ["stored"], "num_replicas": 3, "storage": "file"}
    until_done(hosts, lambda it: it.ask("$JS.API.STREAM.CREATE.NUMBERS", json.dumps(stream)))
    print("created")


def listen(hosts, count):
    connection = Connection(hosts)
    connection.send("SUB plain 2\r\nPING\r\n")
    # The server has heard of it when it answers.
    while not connection.file.readline().startswith(b"PONG"):
        pass
    print("listens", flush=True)
    heard = [int(connection.message()[1]) for _ in range(int(count))]
    assert heard == list(range(1, int(count) + 1)), heard
    print("all of it")


def publish(hosts, first, last):
    """Each number to who listens now, and into the stream, where a number that comes twice is one."""
    numbers = iter(range(int(first), int(last) + 1))
    waiting = next(numbers)
    tries = 0

    def go_on(connection):
        nonlocal waiting, tries
        tries += 1
        while waiting:
            connection.ask("stored", str(waiting), f"Nats-Msg-Id: {waiting}")
            connection.send(f"PUB plain {len(str(waiting))}\r\n{waiting}\r\n")
            waiting = next(numbers, None)

    until_done(hosts, go_on)
    print("published by", tries)


def read(hosts, count):
    def all_of_it(connection):
        get = lambda number: connection.ask("$JS.API.STREAM.MSG.GET.NUMBERS", json.dumps({"seq": number}))
        return [get(number + 1)["message"]["data"] for number in range(int(count))]

    values = [int(base64.b64decode(value)) for value in until_done(hosts, all_of_it)]
    assert values == list(range(1, int(count) + 1)), values
    info = until_done(hosts, lambda it: it.ask("$JS.API.STREAM.INFO.NUMBERS", ""))
    cluster = info["cluster"]
    print(json.dumps({"leader": cluster["leader"], "current": [it["current"] for it in cluster["replicas"]],
                      "messages": info["state"]["messages"]}))


globals()[sys.argv[1]](sys.argv[2].split(","), *sys.argv[3:])
