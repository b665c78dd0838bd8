"""Messages by WebSocket, each of which is sent back.

    websocket.py serve PORT
    websocket.py talk ADDRESS
"""
import asyncio
import hashlib
import sys

import websockets

CONNECTIONS = 20
MESSAGES = 400
# Longer than anything a server is waited for takes.
PATIENCE_S = 60


async def back(connection, path=None):
    async for message in connection:
        await connection.send(message)


async def serve(port):
    async with websockets.serve(back, "0.0.0.0", int(port), ping_timeout=PATIENCE_S):
        await asyncio.Future()


def message(of, number):
    """Up to 256 KB."""
    if number % 10 == 0:
        return f"{of} {number}"
    return hashlib.sha256(f"{of} {number}".encode()).digest() * (1 << number % 14)


async def talk_one(address, of):
    async with websockets.connect(address, ping_timeout=PATIENCE_S) as connection:
        async def send():
            for number in range(MESSAGES):
                await connection.send(message(of, number))

        sender = asyncio.ensure_future(send())
        for number in range(MESSAGES):
            assert await connection.recv() == message(of, number), (of, number)
        await sender


async def talk(address):
    await asyncio.gather(*(talk_one(address, of) for of in range(CONNECTIONS)))
    print("all of it")


asyncio.run(globals()[sys.argv[1]](sys.argv[2]))
