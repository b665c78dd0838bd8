"""What programs expect of TCP, case by case: `semantics.py serve CASE ADDRESS PORT` on one node,
`semantics.py connect CASE ADDRESS PORT` on another. Both print what they see; run over plain TCP
and under `tabane run` they must print the same."""

import array
import errno
import faulthandler
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time

# Nothing is left behind beside these files.
sys.dont_write_bytecode = True

import connecting  # noqa: E402
import datagrams  # noqa: E402
import options  # noqa: E402
import ring  # noqa: E402
import urgent  # noqa: E402
from case import MB, PATIENCE, Case, error, pattern, read_all, say  # noqa: E402


class Echo(Case):
    pass


class EchoToAnyAddress(Case):
    """A server at all addresses sees which it was asked at."""

    def listener(self):
        address, self.address = self.address, ""
        l = super().listener()
        self.address = address
        return l

    def accepted(self, s):
        say(s.getsockname()[:2] == (self.address, self.port))
        super().accepted(s)


class EchoToBothFamilies(Case):
    """A server at all addresses of both families; and one of each family at one port."""

    def serve(self):
        both = socket.create_server(("", self.port), family=socket.AF_INET6, dualstack_ipv6=True)
        v4 = socket.create_server(("", self.port + 1000), family=socket.AF_INET)
        v6 = socket.create_server(("", self.port + 1000), family=socket.AF_INET6)
        say("ready")
        s = both.accept()[0]
        say(s.getsockname()[0].removeprefix("::ffff:") == self.address)
        self.accepted(s)
        self.accepted((v4 if self.family == socket.AF_INET else v6).accept()[0])

    def connect(self):
        super().connect()
        self.port += 1000
        super().connect()


class Bulk(Case):
    """Much both ways, unchanged."""

    def accepted(self, s):
        data = read_all(s)
        say("got", len(data), data == pattern(32 * MB)[: 32 * MB])
        s.sendall(data)
        s.close()

    def talk(self, s):
        data = pattern(32 * MB)[: 32 * MB]
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        say(read_all(s) == data)


class Refused(Case):
    """Nobody listens."""

    def serve(self):
        say("ready")

    def connect(self):
        say(error(self.connected))
        # The same without blocking: poll tells, SO_ERROR has it.
        s = socket.socket(self.family)
        s.setblocking(False)
        say(error(lambda: s.connect((self.address, self.port))))
        p = select.poll()
        p.register(s, select.POLLOUT)
        events = p.poll(PATIENCE * 1000)
        say(bool(events[0][1] & select.POLLERR), errno.errorcode[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])


class NonBlocking(Case):
    """EINPROGRESS, POLLOUT, SO_ERROR, EISCONN; epoll that was told of the socket before connect."""

    def connect(self):
        s = socket.socket(self.family)
        s.setblocking(False)
        e = select.epoll()
        e.register(s, select.EPOLLOUT | select.EPOLLIN)
        say(error(lambda: s.connect((self.address, self.port))))
        events = []
        until = time.time() + PATIENCE
        while time.time() < until and not any(m & select.EPOLLOUT and not m & select.EPOLLHUP for _, m in events):
            events = e.poll(1)
        say(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), s.getpeername()[:2] == (self.address, self.port))
        say(error(lambda: s.connect((self.address, self.port))))
        say(error(lambda: s.recv(1)))
        s.setblocking(True)
        self.talk(s)


class Duplicates(Case):
    """dup, fork, exec, a descriptor handed to another process: all are the same connection."""

    def talk(self, s):
        os.write(os.dup(s.fileno()), b"dup ")
        if os.fork() == 0:
            s.sendall(b"fork ")
            os._exit(0)
        os.wait()
        os.set_inheritable(s.fileno(), True)
        if os.fork() == 0:
            os.execvp("sh", ["sh", "-c", "printf 'exec ' >&%d" % s.fileno()])
        os.wait()
        a, b = socket.socketpair()
        if os.fork() == 0:
            _, fds, _, _ = socket.recv_fds(b, 10, 1)
            os.write(fds[0], b"handed")
            os._exit(0)
        socket.send_fds(a, [b"x"], [s.fileno()])
        os.wait()
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class Sendfile(Case):
    """sendfile and splice."""

    def talk(self, s):
        data = pattern(MB)[:MB]
        with open("/dev/shm/tabane-semantics-%d" % os.getpid(), "w+b") as f:
            os.unlink(f.name)
            f.write(data)
            f.flush()
            s.setblocking(True)
            sent = 0
            while sent < MB // 2:
                sent += os.sendfile(s.fileno(), f.fileno(), sent, MB // 2 - sent)
            r, w = os.pipe()
            while sent < MB:
                n = os.splice(f.fileno(), w, min(1 << 16, MB - sent), offset_src=sent)
                sent += n
                while n:
                    n -= os.splice(r, s.fileno(), n)
        s.shutdown(socket.SHUT_WR)
        say(read_all(s) == data)


class Peek(Case):
    """MSG_PEEK, FIONREAD, MSG_WAITALL, SO_RCVLOWAT."""

    def accepted(self, s):
        s.sendall(b"0123456789")
        read_all(s)

    def talk(self, s):
        say(s.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))
        s.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
        count = array.array("i", [0])
        fcntl.ioctl(s, termios.FIONREAD, count)
        say(count[0])
        say(s.recv(6, socket.MSG_WAITALL), s.recv(100))


class HalfClose(Case):
    """Each direction ends by itself."""

    def accepted(self, s):
        s.sendall(b"first")
        s.shutdown(socket.SHUT_WR)
        say("got", read_all(s))

    def talk(self, s):
        say(read_all(s))
        s.sendall(b"after the end of the other direction")
        time.sleep(0.1)
        s.sendall(b", twice")
        s.close()


class ResetByServer(Case):
    """A close with SO_LINGER 0 is a reset, and an error at the other end."""

    def accepted(self, s):
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def talk(self, s):
        s.sendall(b"x")
        say(error(lambda: s.recv(1)))
        say(error(lambda: s.recv(1)))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        say(error(lambda: s.send(b"x")))


class ResetByClient(Case):
    def accepted(self, s):
        say(error(lambda: s.recv(1)))
        s.sendall(b"y")
        say(error(lambda: s.recv(1)))

    def talk(self, s):
        s.sendall(b"x")
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()


class UnreadClose(Case):
    """Closing with something unread is a reset."""

    def accepted(self, s):
        s.sendall(b"unread")
        say(error(lambda: s.recv(10)))

    def talk(self, s):
        s.recv(1, socket.MSG_PEEK)
        s.close()


class BackPressure(Case):
    """A reader that does not read stops the writer, and nothing is lost when it goes on."""

    def talk(self, s):
        s.setblocking(False)
        sent, stalled = 0, 0
        until = time.time() + PATIENCE
        while stalled < 5 and time.time() < until:
            try:
                sent += s.send(b"x" * (1 << 16))
                stalled = 0
            except BlockingIOError:
                stalled += 1
                time.sleep(0.05)
        say("stalled", stalled == 5, sent < 64 * MB)
        # A second connection tells the reader to go on.
        with self.connected():
            pass
        s.setblocking(True)
        s.sendall(b"x" * (24 * MB - sent % MB))
        self.total = sent + 24 * MB - sent % MB
        s.shutdown(socket.SHUT_WR)
        read_all(s)

    def serve(self):
        l = self.listener()
        say("ready")
        s = l.accept()[0]
        s.recv(1)
        l.accept()[0].close()
        data = read_all(s)
        say("whole megabytes", (len(data) + 1) % MB == 0)
        s.close()


class Options(Case):
    """Every option that is set is as it was set."""

    OPTIONS = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_CORK, 1),
        (socket.IPPROTO_TCP, socket.TCP_CORK, 0),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 33),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 7),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_SYNCNT, 4),
        (socket.IPPROTO_TCP, socket.TCP_LINGER2, 9),
        (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000),
        (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 16384),
        (socket.IPPROTO_IP, socket.IP_TOS, 16),
        (socket.IPPROTO_IP, socket.IP_TTL, 55),
    ]

    def talk(self, s):
        for level, option, value in self.OPTIONS:
            if level == socket.IPPROTO_IP and self.family == socket.AF_INET6:
                continue
            s.setsockopt(level, option, value)
            say(level, option, s.getsockopt(level, option))
        say(s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL))
        say(len(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)))
        super().talk(s)


class Addresses(Case):
    """Both ends see each other's address."""

    def accepted(self, s):
        say(s.getpeername()[0] == self.client_address(), s.getsockname()[:2] == (self.address, self.port))
        port = s.getpeername()[1]
        s.sendall(b"%d" % port)
        s.close()

    def client_address(self):
        # Of the other node: its number is the last of the address.
        return self.address[:-1] + "1"

    def talk(self, s):
        say(s.getpeername()[:2] == (self.address, self.port), s.getsockname()[0] == self.client_address())
        say(int(read_all(s)) == s.getsockname()[1])


class BindBeforeConnect(Case):
    """A client that chooses its port."""

    def accepted(self, s):
        say(s.getpeername()[1])
        s.close()

    def connected(self):
        s = self.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", 45454))
        s.connect((self.address, self.port))
        return s

    def talk(self, s):
        say(s.getsockname()[1], read_all(s))


class Many(Case):
    """300 connections at once."""

    COUNT = 300
    backlog = 512

    def serve(self):
        l = self.listener()
        say("ready")
        sockets = [l.accept()[0] for _ in range(self.COUNT)]
        total = sum(int(read_all(s)) for s in sockets)
        say(total)
        for s in sockets:
            s.sendall(b"%d" % total)
            s.close()

    def connect(self):
        sockets = []
        for _ in range(self.COUNT):
            s = socket.socket(self.family)
            s.setblocking(False)
            s.connect_ex((self.address, self.port))
            sockets.append(s)
        for n, s in enumerate(sockets):
            select.select([], [s], [], PATIENCE)
            s.setblocking(True)
            s.sendall(b"%d" % n)
            s.shutdown(socket.SHUT_WR)
        say(len({read_all(s) for s in sockets}))


class PreFork(Case):
    """Several processes accept from one listener, and several listeners share a port."""

    def serve(self):
        l = self.listener()
        say("ready")
        for _ in range(3):
            if os.fork() == 0:
                s = l.accept()[0]
                s.sendall(read_all(s))
                s.close()
                os._exit(0)
        for _ in range(3):
            os.wait()
        say("all served")

    def connect(self):
        for n in range(3):
            self.talk(self.connected())


class ReusePort(Case):
    def serve(self):
        listeners = []
        for _ in range(4):
            s = self.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            s.bind((self.address, self.port))
            s.listen()
            listeners.append(s)
        say("ready")
        for _ in range(8):
            ready = select.select(listeners, [], [], PATIENCE)[0]
            s = ready[0].accept()[0]
            s.sendall(read_all(s))
            s.close()
        say("all served")

    def connect(self):
        for n in range(8):
            self.talk(self.connected())


class DeferredAccept(Case):
    """The listener is woken only when there is data."""

    def listener(self):
        l = super().listener()
        l.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
        return l

    def accepted(self, s):
        s.setblocking(False)
        data = error(lambda: s.recv(100))
        s.setblocking(True)
        say(data)
        s.sendall(data)
        s.close()

    def talk(self, s):
        s.sendall(b"deferred")
        say(read_all(s))


class ClosedAndReopened(Case):
    """A listener that goes refuses, and one that comes back accepts."""

    def serve(self):
        l = self.listener()
        told = self.told_at()
        say("ready")
        self.accepted(l.accept()[0])
        l.close()
        # That it is closed; and then that this was seen.
        told.accept()[0].close()
        told.accept()[0].close()
        l = self.listener()
        self.accepted(l.accept()[0])

    def connect(self):
        self.talk(self.connected())
        self.tell()
        say(error(self.connected))
        self.tell()
        until = time.time() + PATIENCE
        while time.time() < until:
            try:
                s = self.connected()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        self.talk(s)


class Interrupted(Case):
    """A signal in the middle of what waits."""

    def accepted(self, s):
        s.recv(1)
        s.sendall(b"late")
        s.close()

    def talk(self, s):
        signals = []

        def interrupted(*_):
            signals.append(1)
            if len(signals) == 5:
                s.sendall(b"x")

        signal.signal(signal.SIGALRM, interrupted)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        s.settimeout(None)
        data = read_all(s)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(data, len(signals) > 4)


class ToItself(Case):
    """A connection to one's own listener, by loopback and by one's own address."""

    def serve(self):
        say("ready")

    def connect(self):
        for address in ["127.0.0.1", "::1", self.address[:-1] + "1"]:
            l = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
            c = socket.create_connection(l.getsockname()[:2], timeout=PATIENCE)
            s, _ = l.accept()
            c.sendall(b"x")
            say(s.recv(1), s.getpeername() == c.getsockname())


class Threads(Case):
    """A thread that reads and one that writes."""

    def talk(self, s):
        data = pattern(8 * MB)[: 8 * MB]
        got = []
        reader = threading.Thread(target=lambda: got.append(read_all(s)))
        reader.start()
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        reader.join()
        say(got[0] == data)


class FastOpen(Case):
    """Data with the first packet."""

    def listener(self):
        l = super().listener()
        l.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
        return l

    def connect(self):
        s = self.socket()
        s.settimeout(None)
        s.sendto(b"hel", socket.MSG_FASTOPEN, (self.address, self.port))
        s.sendall(b"lo")
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class Multipath(Case):
    """A client that asks for MPTCP."""

    def socket(self):
        s = socket.socket(self.family, socket.SOCK_STREAM, getattr(socket, "IPPROTO_MPTCP", 262))
        s.settimeout(PATIENCE)
        return s


KINDS = [
    Case,
    connecting.ConnectingCase,
    datagrams.DatagramCase,
    urgent.UrgentCase,
    ring.RingCase,
    options.OptionCase,
]
CASES = {c.__name__: c for kind in KINDS for c in kind.__subclasses__() if c not in KINDS}

if __name__ == "__main__":
    if sys.argv[1] == "list":
        print("\n".join(CASES))
    else:
        # One that hangs says where, before the test loses patience.
        faulthandler.dump_traceback_later(3 * PATIENCE, exit=True)
        side, name, address, port = sys.argv[1:]
        getattr(CASES[name](address, int(port)), side)()
