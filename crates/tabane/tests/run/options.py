"""Every option that a socket has, one by one."""

import socket
import struct

from case import Case, error, say

# linux/tcp.h, asm-generic/socket.h, linux/in.h, linux/in6.h: those beyond the last are there some day.
LEVELS = [
    (socket.IPPROTO_TCP, range(1, 64)),
    (socket.SOL_SOCKET, range(1, 96)),
    (socket.IPPROTO_IP, range(1, 64)),
    (socket.IPPROTO_IPV6, range(1, 96)),
]
# What is measured, or is of the way a packet takes: not the program's to choose.
MEASURED = {
    # TCP_MAXSEG, TCP_WINDOW_CLAMP, TCP_INFO, TCP_QUICKACK, TCP_CONGESTION, TCP_TIMESTAMP, TCP_SAVED_SYN, TCP_CC_INFO
    socket.IPPROTO_TCP: {2, 10, 11, 12, 13, 24, 28, 26},
    # SO_RCVBUF, SO_SNDBUF (they grow by themselves), SO_PEERSEC, SO_PEERGROUPS, SO_INCOMING_CPU,
    # SO_MEMINFO, SO_INCOMING_NAPI_ID, SO_COOKIE, SO_NETNS_COOKIE
    socket.SOL_SOCKET: {7, 8, 31, 59, 49, 55, 56, 57, 71},
    # IP_MTU, IP_PROTOCOL (of TCP, the port)
    socket.IPPROTO_IP: {14, 52},
    # IPV6_ADDRFORM (of a connection that stands still), IPV6_MULTICAST_IF (of what was accepted, the
    # device), IPV6_MTU, IPV6_PATHMTU
    socket.IPPROTO_IPV6: {1, 17, 24, 61},
}
# TCP_REPAIR, SO_BINDTOIFINDEX: such a connection says nothing any more.
STEERING = {socket.IPPROTO_TCP: {19}, socket.SOL_SOCKET: {62}}
LONGEST = 256


class OptionCase(Case):
    def got(self, s, level, option):
        value = error(lambda: s.getsockopt(level, option, LONGEST))
        if value != "ENOPROTOOPT" and option in MEASURED[level]:
            return "measured"
        return value

    def values(self, s):
        of = [(level, option) for level, options in LEVELS for option in options]
        return {at: self.got(s, *at) for at in of}


class EveryOptionIsThere(OptionCase):
    """What each one is, before and after connecting, and of what was accepted."""

    def accepted(self, s):
        for at, value in self.values(s).items():
            say(at, value)
        super().accepted(s)

    def connect(self):
        s = self.socket()
        for at, value in self.values(s).items():
            say(at, value)
        s.connect((self.address, self.port))
        for at, value in self.values(s).items():
            say(at, value)
        self.talk(s)


class EveryOptionIsSet(OptionCase):
    """What becomes of setting each one to 1, on a connection of its own, and that it still carries."""

    def serve(self):
        l = self.listener()
        say("ready")
        said = None
        while said != b"last":
            with l.accept()[0] as s:
                said = error(lambda: s.recv(100))

    def connect(self):
        for level, options in LEVELS:
            for option in set(options) - STEERING.get(level, set()):
                with self.connected() as s:
                    done = error(lambda: s.setsockopt(level, option, struct.pack("i", 1)))
                    say((level, option), done, self.got(s, level, option))
                    say(error(lambda: s.send(b"hello")))
        with self.connected() as s:
            s.sendall(b"last")
