"""What all cases share."""

import errno
import socket

PATIENCE = 15
MB = 1 << 20


def say(*what):
    print(*what, flush=True)


def error(act):
    """The name of the error that `act` ends with, or what it returns."""
    try:
        return act()
    except OSError as e:
        return errno.errorcode.get(e.errno, "timed out")


def read_all(s):
    pieces = []
    while True:
        piece = s.recv(1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def pattern(size):
    return bytes(i * 31 % 251 for i in range(min(size, 251))) * (size // 251 + 1)


class Case:
    """By default: the server echoes everything, the client decides."""

    backlog = 128
    kind = socket.SOCK_STREAM

    def __init__(self, address, port):
        self.address, self.port = address, port
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def socket(self):
        s = socket.socket(self.family, self.kind)
        s.settimeout(PATIENCE)
        return s

    def connected(self):
        s = self.socket()
        s.connect((self.address, self.port))
        return s

    def listener(self):
        s = self.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((self.address, self.port))
        s.listen(self.backlog)
        return s

    def told_at(self):
        """Where the server is told how far the client is."""
        return socket.create_server((self.address, self.port + 5000), family=self.family)

    def tell(self):
        """Returns when the server has heard it."""
        with socket.create_connection((self.address, self.port + 5000)) as s:
            s.recv(1)

    def serve(self):
        l = self.listener()
        say("ready")
        self.accepted(l.accept()[0])

    def accepted(self, s):
        data = read_all(s)
        s.sendall(data)
        s.close()
        say("echoed", len(data))

    def connect(self):
        s = self.connected()
        self.talk(s)

    def talk(self, s):
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))
