"""What programs expect of UDP, case by case."""

import select
import socket
import time

from case import PATIENCE, Case, error, say


class DatagramCase(Case):
    """By default: the server answers in capitals until it is told to end."""

    kind = socket.SOCK_DGRAM

    def bound(self, address=None, port=None, options=()):
        s = self.socket()
        for level, option in options:
            s.setsockopt(level, option, 1)
        s.bind((self.address if address is None else address, self.port if port is None else port))
        return s

    def serve(self):
        s = self.bound()
        say("ready")
        self.answer(s)
        say("answered")

    def answer(self, s):
        while True:
            data, who = s.recvfrom(1 << 16)
            s.sendto(data.upper(), who)
            if data == b"end":
                return who

    def ask(self, s, data=b"question"):
        s.send(data)
        return s.recv(1 << 16)


class Datagrams(DatagramCase):
    """Sockets that are connected and that are not; small and large; an empty one."""

    def connect(self):
        a, b = self.connected(), self.socket()
        say(self.ask(a))
        b.sendto(b"not connected", (self.address, self.port))
        data, who = b.recvfrom(100)
        say(data, who[:2] == (self.address, self.port))
        for size in 0, 1, 1000, 1400, 9000, 60000, 65507 if self.family == socket.AF_INET else 65487:
            say(self.ask(a, b"y" * size) == b"Y" * size)
        # EMSGSIZE is the sender's own kernel's.
        say(error(lambda: a.send(b"y" * 66000)))
        say(self.ask(a, b"end"))


class DatagramsToAnyAddress(DatagramCase):
    """A server that has bound all addresses answers from the one it was asked at: a connected client
    hears nothing else."""

    def serve(self):
        s = self.bound(address="")
        say("ready")
        self.answer(s)
        say("answered")

    def connect(self):
        for word in b"one", b"two", b"end":
            say(self.ask(self.connected(), word))


class DatagramsOfManyClients(DatagramCase):
    """Each client gets its own answers, in any order of asking."""

    def connect(self):
        clients = [self.connected() for _ in range(20)]
        for n, s in enumerate(clients):
            s.send(b"client %d" % n)
        say([s.recv(100) for s in reversed(clients)])
        say(self.ask(clients[0], b"end"))


class DatagramsFromBoundPort(DatagramCase):
    """A client that has chosen its port is seen with it, and hears from others as well."""

    def serve(self):
        s, other = self.bound(), self.bound(port=self.port + 1000)
        say("ready")
        who = self.answer(s)
        say(who[1])
        other.sendto(b"from elsewhere", who)

    def connect(self):
        s = self.bound(address="", port=45455)
        s.sendto(b"end", (self.address, self.port))
        say(s.recvfrom(100)[0])
        data, who = s.recvfrom(100)
        say(data, who[:2] == (self.address, self.port + 1000))


class DatagramsOfAnyPort(DatagramCase):
    """bind() to port 0: the port is known at once, and others reach it."""

    def serve(self):
        s, any_port = self.bound(), self.bound(port=0)
        say(any_port.getsockname()[0] == self.address, any_port.getsockname()[1] != 0)
        say("ready")
        data, who = s.recvfrom(100)
        s.sendto(b"%d" % any_port.getsockname()[1], who)
        self.answer(any_port)
        say("answered")

    def connect(self):
        s = self.socket()
        s.bind(("", 0))
        say(s.getsockname()[1] != 0)
        s.sendto(b"which?", (self.address, self.port))
        port = int(s.recv(100))
        s.connect((self.address, port))
        say(self.ask(s, b"end"))


class DatagramsConnectedServer(DatagramCase):
    """A server that connects its socket to the first client hears no other."""

    def serve(self):
        s = self.bound()
        say("ready")
        data, who = s.recvfrom(100)
        s.connect(who)
        s.send(data.upper())
        say(s.recv(100))
        s.settimeout(0.3)
        say(error(lambda: s.recv(100)))

    def connect(self):
        a, b = self.connected(), self.connected()
        say(self.ask(a))
        b.send(b"stranger")
        a.send(b"again")


class DatagramsRefused(DatagramCase):
    """Nobody has the port: a connected socket is told."""

    def serve(self):
        say("ready")

    def connect(self):
        for s in self.connected(), self.bound(address="", port=0):
            s.connect((self.address, self.port))
            s.send(b"anybody?")
            say(error(lambda: s.recv(100)))
            # Told once.
            s.settimeout(0.3)
            say(error(lambda: s.recv(100)))


class DatagramsWithoutRoute(DatagramCase):
    """There is no way to whom it sends: a connected socket is told, be it by connect() or after it has sent."""

    # `socket` does not have it. By IPv4 it is told without asking.
    IPV6_RECVERR = 25

    def serve(self):
        say("ready")

    def connect(self):
        s, is_v4 = self.socket(), self.family == socket.AF_INET
        if not is_v4:
            s.setsockopt(socket.IPPROTO_IPV6, self.IPV6_RECVERR, 1)

        def ask():
            s.connect(("192.0.2.1" if is_v4 else "2001:db8::1", self.port))
            return self.ask(s)

        say(error(ask))


class DatagramsNotRefused(DatagramCase):
    """A socket that is not connected is told nothing."""

    def serve(self):
        say("ready")

    def connect(self):
        s = self.socket()
        s.sendto(b"anybody?", (self.address, self.port))
        s.settimeout(0.5)
        say(error(lambda: s.recv(100)))


class DatagramsUntilClosed(DatagramCase):
    """A port that was closed refuses, though the program lives on."""

    def serve(self):
        s, other = self.bound(), self.bound(port=self.port + 1000)
        say("ready")
        self.answer(s)
        s.close()
        self.answer(other)
        say(self.bound().getsockname()[1] == self.port)

    def connect(self):
        s, other = self.connected(), self.socket()
        other.connect((self.address, self.port + 1000))
        say(self.ask(s, b"end"))
        s.settimeout(0.1)
        until, refused = time.time() + PATIENCE, False
        while time.time() < until and not refused:
            refused = "ECONNREFUSED" in (error(lambda: s.send(b"there?")), error(lambda: s.recv(100)))
        say(refused)
        say(self.ask(other, b"end"))


class DatagramPortsTaken(DatagramCase):
    """Who may have a port, and who not."""

    SHARED = [(socket.SOL_SOCKET, socket.SO_REUSEADDR)]
    SHARED_PORT = [(socket.SOL_SOCKET, socket.SO_REUSEPORT)]

    def serve(self):
        first = self.bound()
        say(error(lambda: self.bound()), error(lambda: self.bound(address="")))
        say(error(lambda: self.bound(options=self.SHARED)))
        say(error(lambda: first.bind((self.address, self.port + 1000))))
        first.close()
        for options in self.SHARED, self.SHARED_PORT:
            both = [self.bound(options=options) for _ in range(2)]
            say(error(lambda: self.bound()))
            del both
        say(error(lambda: self.bound(address="192.0.2.1" if self.family == socket.AF_INET else "2001:db8::1")))
        say("ready")
        self.answer(self.bound())

    def connect(self):
        say(self.ask(self.connected(), b"end"))


class DatagramsBothFamilies(DatagramCase):
    """Sockets of IPv4 and of IPv6 alone at one port; and one for both."""

    ONLY = [(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)]

    def serve(self):
        v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        v6.setsockopt(*self.ONLY[0], 1)
        v4.bind(("0.0.0.0", self.port))
        v6.bind(("::", self.port))
        both = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        say(error(lambda: both.bind(("::", self.port))))
        both.bind(("::", self.port + 1000))
        say(error(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("0.0.0.0", self.port + 1000))))
        say("ready")
        self.answer(v4 if self.family == socket.AF_INET else v6)
        who = self.answer(both)
        say(who[0].startswith("::ffff:") == (self.family == socket.AF_INET))

    def connect(self):
        say(self.ask(self.connected(), b"end"))
        self.port += 1000
        say(self.ask(self.connected(), b"end"))


class DatagramsSharedPort(DatagramCase):
    """SO_REUSEPORT: several sockets, and each client stays with one of them."""

    def serve(self):
        sockets = [self.bound(options=DatagramPortsTaken.SHARED_PORT) for _ in range(4)]
        say("ready")
        seen, ends = {}, 0
        while ends < 16:
            for s in select.select(sockets, [], [], PATIENCE)[0]:
                data, who = s.recvfrom(100)
                seen.setdefault(who, set()).add(s)
                s.sendto(data.upper(), who)
                ends += data == b"end"
        say(len(seen), all(len(of) == 1 for of in seen.values()), len(set().union(*seen.values())) > 1)

    def connect(self):
        clients = [self.connected() for _ in range(16)]
        say({self.ask(s, word) for word in (b"one", b"two", b"end") for s in clients} == {b"ONE", b"TWO", b"END"})


class DatagramBurst(DatagramCase):
    """Many at once: those that are lost are no more than a socket's buffer makes it."""

    COUNT = 50

    def serve(self):
        s = self.bound()
        say("ready")
        heard = {s.recv(100) for _ in range(self.COUNT)}
        say(len(heard))

    def connect(self):
        s = self.connected()
        for n in range(self.COUNT):
            s.send(b"%d" % n)
        say(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
