"""Calls by gRPC, with bytes as they are for messages.

    grpc_calls.py serve PORT
    grpc_calls.py call ADDRESS
"""
import hashlib
import sys
from concurrent import futures

import grpc

PIECE_BYTES = 64 * 1024
PIECES = 600
CALLS = 500
# Longer than anything a server is waited for takes.
PATIENCE_S = 60


def piece(number):
    return hashlib.sha256(str(number).encode()).digest() * (PIECE_BYTES // 32)


def echo(request, context):
    return request


def pieces(request, context):
    for number in range(PIECES):
        yield piece(number)


def serve(port):
    server = grpc.server(futures.ThreadPoolExecutor(16))
    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Pieces": grpc.unary_stream_rpc_method_handler(pieces),
        "Talk": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Tabane", methods)])
    assert server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    server.wait_for_termination()


def call(address):
    channel = grpc.insecure_channel(address)
    stream = channel.unary_stream("/Tabane/Pieces")
    slow = stream(b"", timeout=PATIENCE_S)
    assert next(slow) == piece(0)

    def calls(of):
        echo = channel.unary_unary("/Tabane/Echo")
        for number in range(CALLS):
            text = f"{of} {number} ".encode() * (1 + number * 7 % 500)
            assert echo(text, timeout=PATIENCE_S) == text

    def fast(_):
        for number, came in enumerate(stream(b"", timeout=PATIENCE_S)):
            assert came == piece(number)
        assert number == PIECES - 1

    def talk(_):
        talk = channel.stream_stream("/Tabane/Talk")
        for number, came in enumerate(talk(map(piece, range(PIECES)), timeout=PATIENCE_S)):
            assert came == piece(number)
        assert number == PIECES - 1

    with futures.ThreadPoolExecutor(8) as pool:
        done = [pool.submit(what, of) for of in range(2) for what in (calls, fast, talk)]
        for one in done:
            one.result()
    # It stood all the time.
    for number, came in enumerate(slow, 1):
        assert came == piece(number)
    assert number == PIECES - 1
    print("all of it")


globals()[sys.argv[1]](sys.argv[2])
