"""A client of RabbitMQ, with a queue that every member has.

    rabbitmq.py publish HOST,HOST FIRST LAST
    rabbitmq.py consume HOST COUNT
"""
import sys
import time

import pika

# Longer than anything a broker is waited for takes.
PATIENCE_S = 60
QUORUM = {"x-queue-type": "quorum"}


def channel(host):
    connection = pika.BlockingConnection(pika.ConnectionParameters(host))
    channel = connection.channel()
    channel.queue_declare("numbers", durable=True, arguments=QUORUM)
    return channel


def publish(hosts, first, last):
    """One after the other, each confirmed. If that fails, it goes on at the next member, from there."""
    waiting, tries, until = int(first), 0, time.monotonic() + PATIENCE_S
    while waiting <= int(last):
        host = hosts[tries % len(hosts)]
        tries += 1
        try:
            to = channel(host)
            to.confirm_delivery()
            while waiting <= int(last):
                to.basic_publish("", "numbers", str(waiting).encode(), mandatory=True)
                waiting += 1
        except (pika.exceptions.AMQPError, OSError) as error:
            if time.monotonic() > until:
                raise
            print("again:", repr(error), file=sys.stderr)
            time.sleep(0.1)
    print("published by", tries)


def consume(hosts, count):
    """What was published again, since nobody confirmed it, may be there twice."""
    came = channel(hosts[0])
    came.basic_qos(prefetch_count=100)
    numbers = []
    for method, _, body in came.consume("numbers", inactivity_timeout=PATIENCE_S):
        number = int(body)
        if not numbers or number != numbers[-1]:
            numbers.append(number)
        came.basic_ack(method.delivery_tag)
        if number == int(count):
            break
    assert numbers == list(range(1, int(count) + 1)), numbers
    print("all of it")


globals()[sys.argv[1]](sys.argv[2].split(","), *sys.argv[3:])
