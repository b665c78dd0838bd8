"""What programs expect of urgent data (MSG_OOB), case by case."""

import array
import fcntl
import os
import select
import signal
import socket
import time

from case import MB, PATIENCE, Case, error, pattern, read_all, say

SIOCATMARK = 0x8905


def is_at_mark(s):
    said = array.array("i", [0])
    fcntl.ioctl(s, SIOCATMARK, said)
    return said[0] == 1


def read_to_mark(s):
    data = b""
    while True:
        select.select([s], [], [s], PATIENCE)
        if is_at_mark(s):
            return data
        data += s.recv(1 << 16)


def drain(s):
    """What is before the mark, and the urgent byte."""
    # The mark of an urgent byte that was read stays until something behind it is.
    select.select([], [], [s], PATIENCE)
    say(read_to_mark(s))
    say(s.recv(1, socket.MSG_OOB), is_at_mark(s))
    say(error(lambda: s.recv(1, socket.MSG_OOB)))


class UrgentCase(Case):
    """By default: the client says "abc", an urgent "X", "def"; the server tells."""

    inline = False

    def listener(self):
        l = super().listener()
        l.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, self.inline)
        return l

    def accepted(self, s):
        drain(s)
        say(read_all(s))
        s.close()

    def talk(self, s):
        s.sendall(b"abc")
        s.send(b"X", socket.MSG_OOB)
        s.sendall(b"def")
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class Urgent(UrgentCase):
    pass


class UrgentInline(UrgentCase):
    """SO_OOBINLINE: the urgent byte is where it was said."""

    inline = True

    def accepted(self, s):
        say(read_to_mark(s), error(lambda: s.recv(1, socket.MSG_OOB)))
        say(read_all(s))


class UrgentFirstAndAlone(UrgentCase):
    def accepted(self, s):
        say(error(lambda: s.recv(1, socket.MSG_OOB)))
        s.send(b"!")
        say(read_to_mark(s), s.recv(1, socket.MSG_OOB))
        s.setblocking(False)
        say(error(lambda: s.recv(1)))
        s.send(b"!")
        s.setblocking(True)
        say(read_all(s))

    def talk(self, s):
        s.recv(1)
        s.send(b"X", socket.MSG_OOB)
        s.recv(1)
        s.close()


class UrgentOfSeveralBytes(UrgentCase):
    """Only the last of what is sent with MSG_OOB is urgent."""

    def talk(self, s):
        s.send(b"hello", socket.MSG_OOB)
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class UrgentFromServer(UrgentCase):
    """The server begins, at once, with an urgent byte."""

    def accepted(self, s):
        s.send(b"S", socket.MSG_OOB)
        s.sendall(b"erver")
        drain(s)
        say(read_all(s))
        s.close()

    def talk(self, s):
        drain(s)
        s.sendall(b"abc")
        s.send(b"X", socket.MSG_OOB)
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class UrgentAgain(UrgentCase):
    """One after the other, each when the one before was read."""

    def accepted(self, s):
        for _ in range(5):
            drain(s)
            s.send(b"!")
        say(read_all(s))

    def talk(self, s):
        for n in range(5):
            s.sendall(b"data %d" % n)
            s.send(b"%d" % n, socket.MSG_OOB)
            say(s.recv(1))
        s.sendall(b"end")
        s.close()


class UrgentAmidBulk(UrgentCase):
    DATA = pattern(4 * MB)[: 4 * MB]

    def accepted(self, s):
        say(read_to_mark(s) == self.DATA, s.recv(1, socket.MSG_OOB))
        say(read_all(s) == self.DATA)
        s.close()

    def talk(self, s):
        s.sendall(self.DATA)
        s.send(b"X", socket.MSG_OOB)
        s.sendall(self.DATA)
        s.shutdown(socket.SHUT_WR)
        say(read_all(s))


class UrgentSignal(UrgentCase):
    """SIGURG and POLLPRI."""

    def accepted(self, s):
        signals = []
        signal.signal(signal.SIGURG, lambda *_: signals.append(1))
        fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
        s.send(b"!")
        p = select.poll()
        p.register(s, select.POLLPRI)
        events = p.poll(PATIENCE * 1000)
        say(bool(events[0][1] & select.POLLPRI), bool(events[0][1] & select.POLLIN))
        until = time.time() + PATIENCE
        while not signals and time.time() < until:
            time.sleep(0.01)
        say(len(signals))
        super().accepted(s)

    def talk(self, s):
        s.recv(1)
        super().talk(s)


class UrgentThenReset(UrgentCase):
    """The urgent byte arrives, and then the reset."""

    def accepted(self, s):
        say(read_to_mark(s), s.recv(1, socket.MSG_OOB))
        s.send(b"!")
        say(error(lambda: s.recv(1)))

    def talk(self, s):
        s.send(b"X", socket.MSG_OOB)
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
