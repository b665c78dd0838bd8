"""What programs expect of connecting and of listening, case by case."""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from case import MB, PATIENCE, Case, error, pattern, read_all, say


class ConnectingCase(Case):
    """By default there is no server."""

    def serve(self):
        say("ready")


class Unreachable(ConnectingCase):
    """There is no way to the address."""

    def connect(self):
        self.address = "192.0.2.1" if self.family == socket.AF_INET else "2001:db8::1"
        say(error(self.connected))


class NobodyThere(ConnectingCase):
    """Nobody has the address, and who asks for it is not answered."""

    def connect(self):
        self.address = self.address[:-1] + "77"
        say(error(self.connected))


class SignalInConnect(ConnectingCase):
    """A signal interrupts connect(), which goes on; its handler runs at once."""

    def serve(self):
        l = self.listener()
        say("ready")
        l.accept()[0].sendall(b"hello")

    def connect(self):
        signals = []
        signal.signal(signal.SIGALRM, lambda *_: signals.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        s = socket.socket(self.family)
        # Python repeats what was interrupted.
        say(error(lambda: s.connect((self.address, self.port))))
        data = read_all(s)
        time.sleep(0.01)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(data, len(signals) > 0)


class AnyPort(ConnectingCase):
    """A listener at port 0, and one that was never bound."""

    def serve(self):
        l = self.listener()
        bound = socket.socket(self.family)
        bound.bind((self.address, 0))
        bound.listen()
        unbound = socket.socket(self.family)
        unbound.listen()
        say(bound.getsockname()[1] > 0, unbound.getsockname()[1] > 0)
        say("ready")
        s = l.accept()[0]
        s.sendall(b"%d %d" % (bound.getsockname()[1], unbound.getsockname()[1]))
        s.close()
        for listener in bound, unbound:
            self.accepted(listener.accept()[0])

    def connect(self):
        for port in map(int, read_all(self.connected()).split()):
            self.port = port
            super().connect()


class TakenPort(ConnectingCase):
    """A port can be listened at once, and again when it is free."""

    def serve(self):
        first = self.listener()
        say(error(self.listener))
        first.close()
        second = self.listener()
        say("ready")
        self.accepted(second.accept()[0])

    def connect(self):
        Case.connect(self)


class InheritedListener(ConnectingCase):
    """A listener that is handed over to another program by exec, as inetd and systemd do."""

    PROGRAM = "import socket; l = socket.socket(fileno=3); s = l.accept()[0]; s.sendall(s.recv(100).upper())"

    def serve(self):
        l = self.listener()
        say("ready")
        l.setblocking(True)
        os.dup2(l.fileno(), 3)
        l.detach()
        os.set_inheritable(3, True)
        done = subprocess.run([sys.executable, "-c", self.PROGRAM], close_fds=False, timeout=PATIENCE)
        say(done.returncode)

    def connect(self):
        s = self.connected()
        s.sendall(b"hello")
        say(read_all(s))


class SlowAccept(ConnectingCase):
    """Connections that nobody has accepted yet stand, and what is said on them is not lost."""

    def serve(self):
        l = self.listener()
        say("ready")
        first = l.accept()[0]
        first.recv(1)
        say([l.accept()[0].recv(100) for _ in range(3)])
        first.close()

    def connect(self):
        first = self.connected()
        others = []
        for n in range(3):
            others.append(self.connected())
            others[n].sendall(b"number %d" % n)
        first.sendall(b"!")
        say(read_all(first))


class FullBacklog(ConnectingCase):
    """As many connections as the backlog allows stand; who comes then waits, and times out."""

    backlog = 1

    def serve(self):
        l = self.listener()
        told = self.told_at()
        say("ready")
        told.accept()[0].close()
        said = []
        while said[-1:] != [b"last"]:
            # Of one that was given up there may be nothing but its end.
            said.append(error(lambda: read_all(l.accept()[0])))
        say([data for data in said if isinstance(data, bytes) and data])

    def connect(self):
        standing = [self.connected() for _ in range(2)]
        s = self.socket()
        s.settimeout(None)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
        say(error(lambda: s.connect((self.address, self.port))))
        for s in standing:
            s.sendall(b"stood")
            s.close()
        self.tell()
        last = self.connected()
        last.sendall(b"last")
        last.close()


class WaitsForBacklog(ConnectingCase):
    """Who comes when the backlog is full is connected once there is room."""

    # One more than the backlog stand; more than so many at once would be answered by SYN cookies, with
    # which Linux forgets what it has no room for.
    backlog = 3
    STANDING, WAITING = 4, 3

    def serve(self):
        l = self.listener()
        told = self.told_at()
        say("ready")
        told.accept()[0].close()
        for _ in range(self.STANDING + self.WAITING):
            l.accept()[0].sendall(b"welcome")
        say("all served")

    def connect(self):
        standing = [self.connected() for _ in range(self.STANDING)]
        waiting = [socket.socket(self.family) for _ in range(self.WAITING)]
        for s in waiting:
            s.setblocking(False)
            say(error(lambda: s.connect((self.address, self.port))))
        say(len(select.select([], waiting, [], 0.3)[1]))
        self.tell()
        for s in standing + waiting:
            select.select([s], [], [], PATIENCE)
            say(s.recv(100))


class ResetAtOnce(ConnectingCase):
    """Connections that are reset as soon as they are accepted: they were not refused, and are accepted once."""

    COUNT = 50

    def serve(self):
        l = self.listener()
        say("ready")
        for _ in range(self.COUNT):
            s = l.accept()[0]
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        s = l.accept()[0]
        say(read_all(s))

    def connect(self):
        for _ in range(self.COUNT):
            # The reset may be there before connect() has returned.
            say(error(lambda: self.connected().recv(1)))
        with self.connected() as s:
            s.sendall(b"last")


class SamePort(ConnectingCase):
    """A client's port may be one that the server listens at."""

    def serve(self):
        l = socket.create_server(("", self.port), family=self.family)
        say("ready")
        s = l.accept()[0]
        say(s.getpeername()[1] == self.port)
        self.accepted(s)

    def connect(self):
        s = self.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", self.port))
        s.connect((self.address, self.port))
        self.talk(s)


class Killed(ConnectingCase):
    """A program that is killed: its connections end, or are reset if it had not read all."""

    def serve(self):
        l = self.listener()
        say("ready")
        for unread in b"", b"unread":
            s = l.accept()[0]
            s.sendall(b"read")
            s.recv(1)
            s.sendall(unread)
            say(error(lambda: read_all(s)))

    def connect(self):
        for unread in 0, 6:
            pid = os.fork()
            if pid == 0:
                s = self.connected()
                s.recv(4)
                s.sendall(b"!")
                s.recv(unread, socket.MSG_PEEK | socket.MSG_WAITALL)
                os.kill(os.getpid(), signal.SIGKILL)
            say(os.waitpid(pid, 0)[1])


class KilledServer(ConnectingCase):
    """The same of a server: whoever connects afterwards is refused."""

    def serve(self):
        l = self.listener()
        say("ready")
        pid = os.fork()
        if pid == 0:
            s = l.accept()[0]
            s.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
            os.kill(os.getpid(), signal.SIGKILL)
        l.close()
        say(os.waitpid(pid, 0)[1])

    def connect(self):
        s = self.connected()
        s.sendall(b"four")
        say(error(lambda: read_all(s)))
        # Its listener is closed a moment later.
        while error(self.connected) != "ECONNREFUSED":
            pass
        say("refused")


class Linger(ConnectingCase):
    """close() waits until all was taken; nothing is lost."""

    def serve(self):
        l = self.listener()
        say("ready")
        say(len(read_all(l.accept()[0])))

    def connect(self):
        s = self.connected()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, PATIENCE))
        s.sendall(pattern(8 * MB)[: 8 * MB])
        s.close()


class SpliceIn(ConnectingCase):
    """From the socket through a pipe into a file."""

    def serve(self):
        l = self.listener()
        say("ready")
        s = l.accept()[0]
        s.sendall(pattern(MB)[:MB])
        s.close()

    def connect(self):
        s = self.connected()
        s.setblocking(True)
        r, w = os.pipe()
        got = b""
        while True:
            n = os.splice(s.fileno(), w, 1 << 16)
            if n == 0:
                break
            got += os.read(r, n)
        say(got == pattern(MB)[:MB])


class Names(ConnectingCase):
    """getaddrinfo of an address as text; a name of its own kernel's is another's affair."""

    def connect(self):
        found = socket.getaddrinfo(self.address, self.port, type=socket.SOCK_STREAM)
        say(len(found), found[0][4][:2] == (self.address, self.port))


class BothEnd(ConnectingCase):
    """Both sides end at once, having said much."""

    def serve(self):
        l = self.listener()
        say("ready")
        self.exchange(l.accept()[0])

    def connect(self):
        self.exchange(self.connected())

    def exchange(self, s):
        pid = os.fork()
        if pid == 0:
            s.sendall(pattern(4 * MB)[: 4 * MB])
            s.shutdown(socket.SHUT_WR)
            os._exit(0)
        say(read_all(s) == pattern(4 * MB)[: 4 * MB])
        os.waitpid(pid, 0)


class SentAfterPeerClosed(ConnectingCase):
    """Writing to who has closed: taken at first, then an error."""

    def serve(self):
        l = self.listener()
        say("ready")
        l.accept()[0].close()

    def connect(self):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        s = self.connected()
        say(s.recv(1))
        until, last = time.time() + PATIENCE, None
        while time.time() < until and last not in ("EPIPE", "ECONNRESET"):
            last = error(lambda: s.send(b"x"))
            time.sleep(0.01)
        say(last in ("EPIPE", "ECONNRESET"))
