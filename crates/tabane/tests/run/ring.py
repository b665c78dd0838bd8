"""What programs expect that connect, accept, send and receive by io_uring (io_uring(7)) and not by the
calls of those names."""

import ctypes
import errno
import mmap
import os
import socket
import struct

from case import MB, Case, pattern, say

# asm-generic/unistd.h: the same numbers on all machines.
SETUP, ENTER = 425, 426
# linux/io_uring.h
ENTER_GETEVENTS = 1
FEAT_SINGLE_MMAP = 1
OFFSET_SQES = 0x10000000
ACCEPT, CONNECT, CLOSE, SEND, RECV, SHUTDOWN, SOCKET = 13, 16, 19, 26, 27, 34, 45
ENTRY_BYTES = 64

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "io_uring: %s (sysctl kernel.io_uring_disabled?)" % os.strerror(number))
    return result


class Ring:
    """One operation after the other: its result is known when the call returns."""

    def __init__(self):
        params = bytearray(120)
        raw = (ctypes.c_char * len(params)).from_buffer(params)
        self.fd = call(SETUP, 8, raw)
        entries, completions, _, _, _, features = struct.unpack_from("6I", params)
        assert features & FEAT_SINGLE_MMAP, "Linux 5.4"
        self.head, self.tail, self.mask, _, _, _, self.array = struct.unpack_from("7I", params, 40)
        self.done_head, self.done_tail, self.done_mask, _, _, self.done = struct.unpack_from("6I", params, 80)
        size = max(self.array + 4 * entries, self.done + 16 * completions)
        self.rings = mmap.mmap(self.fd, size)
        self.entries = mmap.mmap(self.fd, entries * ENTRY_BYTES, offset=OFFSET_SQES)

    def number(self, at):
        return struct.unpack_from("I", self.rings, at)[0]

    def submit(self, operation, fd, address=0, length=0, offset=0, flags=0):
        """Begins an operation."""
        tail = self.number(self.tail)
        index = tail & self.number(self.mask)
        entry = struct.pack("BBHiQQII32x", operation, 0, 0, fd, offset, address, length, flags)
        self.entries[index * ENTRY_BYTES : (index + 1) * ENTRY_BYTES] = entry
        struct.pack_into("I", self.rings, self.array + 4 * index, index)
        struct.pack_into("I", self.rings, self.tail, tail + 1)
        call(ENTER, self.fd, 1, 0, 0, None, 0)

    def wait(self):
        """The result of what was begun first."""
        while self.number(self.done_head) == self.number(self.done_tail):
            call(ENTER, self.fd, 0, 1, ENTER_GETEVENTS, None, 0)
        head = self.number(self.done_head)
        at = self.done + 16 * (head & self.number(self.done_mask))
        result = struct.unpack_from("i", self.rings, at + 8)[0]
        struct.pack_into("I", self.rings, self.done_head, head + 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def do(self, *arguments, **named):
        self.submit(*arguments, **named)
        return self.wait()

    def connect(self, fd, end):
        address, port = end
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        ip, port = socket.inet_pton(family, address), struct.pack("!H", port)
        raw = struct.pack("H", family) + port
        raw += ip + bytes(8) if family == socket.AF_INET else bytes(4) + ip + bytes(4)
        kept = ctypes.create_string_buffer(raw, len(raw))
        return self.do(CONNECT, fd, ctypes.addressof(kept), offset=len(raw))

    def send_all(self, fd, data):
        kept, sent = ctypes.create_string_buffer(data, len(data)), 0
        while sent < len(data):
            sent += self.do(SEND, fd, ctypes.addressof(kept) + sent, len(data) - sent)

    def read_all(self, fd):
        kept, pieces = ctypes.create_string_buffer(1 << 16), []
        while count := self.do(RECV, fd, ctypes.addressof(kept), len(kept)):
            pieces.append(kept.raw[:count])
        return b"".join(pieces)


class RingCase(Case):
    """By default both ends use it: the server echoes, and its accept waits before anybody connects."""

    def serve(self):
        ring, l = Ring(), self.listener()
        l.setblocking(True)
        ring.submit(ACCEPT, l.fileno())
        say("ready")
        self.taken(ring, ring.wait())

    def taken(self, ring, fd):
        data = ring.read_all(fd)
        ring.send_all(fd, data)
        say("echoed", len(data))
        ring.do(CLOSE, fd)

    def connect(self):
        ring = Ring()
        fd = ring.do(SOCKET, self.family, offset=socket.SOCK_STREAM)
        say(ring.connect(fd, (self.address, self.port)))
        with socket.socket(fileno=fd) as s:
            say(s.getpeername()[:2] == (self.address, self.port))
            self.talk_by(ring, fd)

    def talk_by(self, ring, fd):
        ring.send_all(fd, b"hello")
        ring.do(SHUTDOWN, fd, length=socket.SHUT_WR)
        say(ring.read_all(fd))


class RingEcho(RingCase):
    pass


class RingBulk(RingCase):
    """Much, unchanged; sent while nothing is read, so that both ends wait."""

    def talk_by(self, ring, fd):
        data = pattern(MB)[:MB]
        ring.send_all(fd, data)
        ring.do(SHUTDOWN, fd, length=socket.SHUT_WR)
        say(ring.read_all(fd) == data)


class RingRefused(RingCase):
    """Nobody listens."""

    def serve(self):
        say("ready")

    def connect(self):
        s = socket.socket(self.family)
        try:
            say(Ring().connect(s.fileno(), (self.address, self.port)))
        except OSError as e:
            say(errno.errorcode[e.errno])


class RingReset(RingCase):
    """A reset ends what waits for data."""

    def taken(self, ring, fd):
        kept = ctypes.create_string_buffer(1)
        ring.do(RECV, fd, ctypes.addressof(kept), 1)
        with socket.socket(fileno=fd) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def talk_by(self, ring, fd):
        ring.send_all(fd, b"x")
        try:
            say(ring.read_all(fd))
        except OSError as e:
            say(errno.errorcode[e.errno])


class RingMany(RingCase):
    """Several operations under way at once, on one ring."""

    COUNT = 4

    def serve(self):
        ring, l = Ring(), self.listener()
        l.setblocking(True)
        for _ in range(self.COUNT):
            ring.submit(ACCEPT, l.fileno())
        say("ready")
        for fd in [ring.wait() for _ in range(self.COUNT)]:
            self.taken(ring, fd)

    def connect(self):
        ring, sockets = Ring(), [socket.socket(self.family) for _ in range(self.COUNT)]
        for s in sockets:
            say(ring.connect(s.fileno(), (self.address, self.port)))
        for s in sockets:
            self.talk_by(ring, s.fileno())
