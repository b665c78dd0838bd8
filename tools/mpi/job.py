"""What every rank of tools/mpi/table.sh does: a ring, everybody's bytes to everybody, one-sided operations, and, for
so many seconds, exchanges in pairs. All bytes are checked. The last line of rank 0 says what the longest exchange took."""
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
seconds = float(sys.argv[1])


def pattern(length, seed):
    return bytes((seed * 31 + i * 7) & 255 for i in range(256)) * (length // 256)


# A ring.
token = bytearray(8)
for turn in range(100):
    if rank == 0:
        world.Send(turn.to_bytes(8, "little"), dest=1 % ranks)
        world.Recv(token, source=ranks - 1)
    else:
        world.Recv(token, source=rank - 1)
        world.Send(token, dest=(rank + 1) % ranks)
    assert int.from_bytes(token, "little") == turn

# Everybody to everybody.
length = 1 << 18
out = b"".join(pattern(length, rank * ranks + to) for to in range(ranks))
into = bytearray(length * ranks)
for _ in range(8):
    world.Alltoall(out, into)
    for of in range(ranks):
        assert into[of * length : (of + 1) * length] == pattern(length, of * ranks + rank)

# Into each other's memory; Open MPI 5.0.7 cannot with `pml cm`.
window = None
if "no-windows" not in sys.argv:
    memory = bytearray(length * ranks)
    window = MPI.Win.Create(memory, comm=world)
    window.Fence()
    parts = [pattern(length, rank + to) for to in range(ranks)]
    for to, part in enumerate(parts):
        window.Put(part, to, target=(rank * length, length, MPI.BYTE))
    window.Fence()
    for of in range(ranks):
        assert memory[of * length : (of + 1) * length] == pattern(length, of + rank)

# In pairs, while links fail.
other = (rank + ranks // 2) % ranks
out, expected = pattern(1 << 20, rank), pattern(1 << 20, other)
into = bytearray(1 << 20)
began, longest, rounds = time.monotonic(), 0.0, 0
while world.bcast(time.monotonic() - began < seconds):
    for _ in range(20):
        before = time.monotonic()
        world.Sendrecv(out, other, recvbuf=into, source=other)
        if window:
            part = pattern(length, rank + rounds)
            window.Put(part, other, target=(rank * length, length, MPI.BYTE))
            window.Fence()
            there = memory[other * length : (other + 1) * length]
            assert there == pattern(length, other + rounds)
            window.Fence()
        longest = max(longest, time.monotonic() - before)
        assert into == expected
        rounds += 1
if window:
    window.Free()
longest = world.reduce(longest, MPI.MAX)
if rank == 0:
    print(f"all of it: {rounds} exchanges of 1 MiB, the longest {longest * 1000:.0f} ms")
