"""A connection of the kernel's Multipath TCP that somebody watches.

stream.py receive ADDRESS PORT: takes one connection, checks what comes, and says every 20 ms how many bytes
that were, and the longest time in ms without any since it last said so. The last line is `end`.
stream.py send ADDRESS PORT: sends until its input ends.
"""

import select
import socket
import sys
import time

BLOCK = 65536
# Long enough that a lost or doubled piece shows.
PATTERN = bytes((i * 2654435761 >> 13) & 255 for i in range(1 << 20))


def mptcp(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM, 262)


def receive(address, port):
    listener = mptcp(address)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::" if ":" in address else "0.0.0.0", port))
    listener.listen(1)
    connection, _ = listener.accept()
    count, gap, last, said = 0, 0.0, time.monotonic(), 0.0
    twice = PATTERN + PATTERN
    while True:
        data = connection.recv(BLOCK)
        now = time.monotonic()
        gap = max(gap, now - last)
        last = now
        at = count % len(PATTERN)
        if data != twice[at : at + len(data)]:
            sys.exit(f"wrong bytes after {count}")
        count += len(data)
        if not data or now - said > 0.02:
            print(count, int(gap * 1000), flush=True)
            gap, said = 0.0, now
        if not data:
            print("end", flush=True)
            return


def send(address, port):
    connection = mptcp(address)
    connection.connect((address, port))
    count = 0
    twice = PATTERN + PATTERN
    while not select.select([sys.stdin], [], [], 0)[0]:
        at = count % len(PATTERN)
        count += connection.send(twice[at : at + BLOCK])
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    print(count, flush=True)


if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]))
else:
    send(sys.argv[2], int(sys.argv[3]))
