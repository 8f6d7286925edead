"""A flood, as a separate process: connections that send no credential and never complete their request.

python flood.py PORT WORDS COUNT ADDRESS...

Opens COUNT of them in turn from the given loopback addresses, prints `up` on standard output, and then opens a hundred
more every fifth of a second, until its standard input ends.
"""

import contextlib
import itertools
import resource
import select
import socket
import sys
from collections.abc import Iterator

UPGRADE = "GET /v1/ws HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\n"
BODY = "POST /v1/login HTTP/1.1\r\nHost: localhost:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = {"upgrades": UPGRADE, "bodies": BODY}


def open_one(address: str, port: int, words: bytes) -> socket.socket | None:
    made = socket.socket()
    try:
        made.bind((address, 0))
        made.settimeout(5)
        made.connect(("127.0.0.1", port))
        made.send(words)
        made.setblocking(False)
    except OSError:
        made.close()
        return None
    return made


def closed(one: socket.socket) -> bool:
    try:
        return one.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main(port: int, words: bytes, count: int, addresses: Iterator[str]) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[socket.socket] = []
    for number in range(count):
        made = open_one(next(addresses), port, words)
        if made is not None:
            held.append(made)
        if len(held) > hard // 2 or number % 1000 == 999:
            held = keep(held)
    print("up", flush=True)
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        held = keep(held)
        for _ in range(100):
            made = open_one(next(addresses), port, words)
            if made is not None:
                held.append(made)


def keep(held: list[socket.socket]) -> list[socket.socket]:
    kept = []
    for one in held:
        if closed(one):
            with contextlib.suppress(OSError):
                one.close()
        else:
            kept.append(one)
    return kept


if __name__ == "__main__":
    given = int(sys.argv[1])
    request = WORDS[sys.argv[2]].format(port=given).encode()
    main(given, request, int(sys.argv[3]), itertools.cycle(sys.argv[4:]))
