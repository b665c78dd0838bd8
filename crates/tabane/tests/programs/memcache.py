"""Stores 200 values of 100 KB in memcached, each by another connection of 20, and reads them back."""

import socket
import sys


def value(i):
    return bytes((i * 7 + k) % 251 for k in range(1000)) * 100


def line(f):
    return f.readline().strip()


address = (sys.argv[1], int(sys.argv[2]))
connections = [socket.create_connection(address) for _ in range(20)]
files = [c.makefile("rwb") for c in connections]
for i in range(200):
    f = files[i % 20]
    f.write(b"set key%d 0 0 100000\r\n%s\r\n" % (i, value(i)))
    f.flush()
    assert line(f) == b"STORED"
for i in range(200):
    f = files[(i + 7) % 20]
    f.write(b"get key%d\r\n" % i)
    f.flush()
    assert line(f) == b"VALUE key%d 0 100000" % i
    assert f.read(100000) == value(i)
    assert (line(f), line(f)) == (b"", b"END")
print("all of it")
