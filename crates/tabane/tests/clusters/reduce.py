"""One of three that add up arrays, by torch.distributed's gloo.

    reduce.py RANK ADDRESS
"""
import datetime
import os
import sys

import torch
import torch.distributed

MEMBERS = 3
ROUNDS = 30
NUMBERS = 1_000_000

rank, address = int(sys.argv[1]), sys.argv[2]
# Otherwise it looks for the name of the machine, which is that of no node.
os.environ["GLOO_SOCKET_IFNAME"] = "tab0"
torch.distributed.init_process_group(
    "gloo", f"tcp://{address}:29500", datetime.timedelta(seconds=60), MEMBERS, rank
)
for number in range(ROUNDS):
    array = torch.arange(NUMBERS, dtype=torch.int64) * (rank + 1) + number
    torch.distributed.all_reduce(array)
    sums = torch.arange(NUMBERS, dtype=torch.int64) * 6 + number * MEMBERS
    assert torch.equal(array, sums), number
    parts = [torch.zeros(1000, dtype=torch.int64) for _ in range(MEMBERS)]
    torch.distributed.all_gather(parts, torch.full((1000,), rank * ROUNDS + number))
    assert [int(part[-1]) for part in parts] == [of * ROUNDS + number for of in range(MEMBERS)]
torch.distributed.barrier()
print("all of it")
