"""A client of ZooKeeper.

    zookeeper.py create HOSTS
    zookeeper.py watch HOSTS LAST
    zookeeper.py change HOSTS FIRST LAST
    zookeeper.py read HOST LAST
    zookeeper.py leads HOST
"""
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

# Longer than anything a server is waited for takes.
PATIENCE_S = 60


def started(hosts):
    client = KazooClient(hosts, timeout=10)
    client.start(timeout=PATIENCE_S)
    return client


def create(hosts):
    client = started(hosts)
    client.retry(client.ensure_path, "/numbers")


def watch(hosts, last):
    """Sees the numbers grow, and the last of them; a session that is lost would be told."""
    client, done, seen = started(hosts), threading.Event(), []
    client.add_listener(lambda state: print("state", state, flush=True))

    @client.DataWatch("/numbers")
    def changed(data, stat):
        seen.append(int(data or 0))
        if seen[-1] == int(last):
            done.set()

    print("watches", flush=True)
    assert done.wait(2 * PATIENCE_S), seen[-3:]
    assert seen == sorted(seen), seen
    print("all of it", flush=True)


def change(hosts, first, last):
    client, tries = started(hosts), 0
    session = client.client_id[0]
    for number in range(int(first), int(last) + 1):
        while True:
            tries += 1
            try:
                client.create(f"/numbers/{number}", b"")
                break
            except NodeExistsError:
                # It was done by the try before, whose answer did not come.
                break
            except KazooException:
                client.retry(client.exists, "/numbers")
        client.retry(client.set, "/numbers", str(number).encode())
    assert client.client_id[0] == session
    print("changed in one session, tries", tries)


def read(hosts, last):
    client = started(hosts)
    client.sync("/numbers")
    numbers = sorted(map(int, client.get_children("/numbers")))
    assert numbers == list(range(1, int(last) + 1)), numbers


def leads(hosts):
    print(started(hosts).command(b"srvr"))


globals()[sys.argv[1]](*sys.argv[2:])
