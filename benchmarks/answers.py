"""Measures how long a hall's answers take from the question to the projector.

    python -m benchmarks.answers --phones 300 --out answers.json

Opens a room with `streamlit run app.py` on a free port, or with --processes a hall behind nginx, on two cores that it
shares with the phones. Each phone comes in by the code, opens its page and listens over a websocket, as a browser does.
A lecturer's player opens a question of each kind; every phone answers as soon as it hears of it, over a new connection:
no hall is faster. Then the lecturer reveals.

For each question, in seconds: `heard_s` until the last phone has heard of it, `complete_s` until the projector has the
histogram of all answers, both from the moment when the lecturer asks; `told_s` from the reveal until the last phone is
told. Prints one JSON object. Exits with 1 if a histogram is complete later than --limit-s, or an answer is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import random
import re
import ssl
import sys
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.classroom_load import bounded, cpu_seconds, milliseconds, share_cores
from benchmarks.report import finish, parser_of
from tests.e2e.server import Server, running_hall, running_room

ADDRESS = "127.0.0.2"
"""Stands for the machine's address on a local network; Linux has it without being asked."""
PATIENCE_S = 60.0
QUESTIONS: Sequence[tuple[dict[str, Any], Callable[[random.Random], Any], Any]] = (
    ({"kind": "number", "words": "What will m be?"}, lambda rng: f"{rng.gauss(7, 2):.2f}", "7.096"),
    ({"kind": "choice", "words": "How will m change?", "options": ["larger", "the same", "smaller"]},
     lambda rng: rng.randrange(3), 0),
    ({"kind": "cell", "words": "Which score will m be?", "shape": [64, 64], "axes": ["query", "key"]},
     lambda rng: [rng.randrange(64), rng.randrange(64)], [[15, 20]]),
)  # fmt: skip
"""Each question, an answer to it, and the right one."""


class Client:
    """A browser with its cookies, at one address of the server."""

    def __init__(self, url: str, trust: ssl.SSLContext | None) -> None:
        self.url, self._trust = url, trust
        self.cookies: dict[str, str] = {}

    async def ask(self, path: str, body: object = None) -> tuple[int, str]:
        """Status and text of an answer, over a connection of its own; without a body it is asked for by GET."""
        address = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=self._trust)
        sent = b"" if body is None else json.dumps(body).encode()
        head = [f"{'POST' if sent else 'GET'} {path} HTTP/1.1", f"Host: {address.netloc}", "Connection: close",
                f"Origin: {self.url}", f"Cookie: {self._cookie()}", f"Content-Length: {len(sent)}"]  # fmt: skip
        writer.write("\r\n".join([*head, "", ""]).encode() + sent)
        got = await reader.read()
        writer.close()
        top, _, text = got.decode().partition("\r\n\r\n")
        for name, value in re.findall(r"(?im)^set-cookie: ([^=]+)=([^;\r\n]*)", top):
            self.cookies[name] = value
        return int(top.split(" ", 2)[1]), text

    def listen(self, path: str) -> connect:
        """A websocket of this browser."""
        url = self.url.replace("http", "ws", 1) + path
        headers = {"Cookie": self._cookie()}
        return connect(url, origin=self.url, additional_headers=headers, ssl=self._trust, proxy=None)  # type: ignore[arg-type]

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())


async def until(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Returns once the server has said what is wanted."""
    while not wanted(json.loads(await socket.recv())):
        pass


async def hold(server: Server, phones: int, enter: str, lecturer: Client) -> dict[str, Any]:
    """Asks each question of this many phones, and returns what was measured. `enter` lets a phone in."""
    clock, rng, latencies = asyncio.get_running_loop().time, random.Random(0), list[float]()
    phones_url = f"http://{ADDRESS}:{urlsplit(server.url).port}" if server.trust is None else server.url
    async with AsyncExitStack() as open_:
        hall: list[tuple[Client, ClientConnection]] = []
        for _ in range(phones):
            phone = Client(phones_url, server.trust)
            await phone.ask(enter)
            await phone.ask("/answer")
            hall.append((phone, await open_.enter_async_context(phone.listen("/answer/live"))))
        projector = await open_.enter_async_context(lecturer.listen("/asked/live"))
        before, began, rounds, lost = sum(map(cpu_seconds, server.apps)), clock(), list[dict[str, Any]](), 0
        for question, answer, right in QUESTIONS:
            asked = clock()
            _, text = await lecturer.ask("/asked", {"open": question})
            id = json.loads(text)["question"]
            everybody = [take_part(*one, id, answer(rng), latencies) for one in hall]
            shown = asyncio.ensure_future(_all_shown(projector, id, phones, clock))
            heard = await asyncio.wait_for(asyncio.gather(*everybody), PATIENCE_S)
            refused = sum(map(math.isnan, heard))
            complete = asked + PATIENCE_S if refused else await asyncio.wait_for(shown, PATIENCE_S)
            lost += refused
            revealed = clock()
            await lecturer.ask("/asked", {"reveal": id, "right": right})
            told = [until(socket, lambda told: told.get("tally", {}).get("count") == phones) for _, socket in hall]
            await asyncio.wait_for(asyncio.gather(*told), PATIENCE_S)
            took = {"heard_s": max(heard) - asked, "complete_s": complete - asked, "told_s": clock() - revealed}
            rounds.append({"kind": question["kind"], **{name: round(value, 3) for name, value in took.items()}})
        busy = (sum(map(cpu_seconds, server.apps)) - before) / (clock() - began)
    return {
        "phones": phones,
        "processes": len(server.apps),
        "questions": rounds,
        "complete_s": max(one["complete_s"] for one in rounds),
        "told_s": max(one["told_s"] for one in rounds),
        "lost": lost,
        "answer": milliseconds(latencies),
        "server_cpu_share": round(busy, 3),
    }


async def take_part(phone: Client, socket: ClientConnection, id: str, value: Any, latencies: list[float]) -> float:
    """Answers as soon as the question is heard of; returns when that was, NaN if the answer is refused."""
    clock = asyncio.get_running_loop().time
    await until(socket, lambda told: told["question"] is not None and told["question"]["id"] == id)
    heard = clock()
    status, _ = await phone.ask("/answer", {"question": id, "value": value})
    latencies.append(clock() - heard)
    return heard if status == HTTPStatus.OK else math.nan


async def _all_shown(projector: ClientConnection, id: str, phones: int, clock: Callable[[], float]) -> float:
    """When the projector has all answers."""
    await until(projector, lambda told: told["question"] == id and told["tally"]["count"] == phones)
    return clock()


def in_room(server: Server) -> tuple[str, Client]:
    """The path that lets a phone into the room, and who sits at its server."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{server.url}/room") as answer:
        code = re.search(r'class="code">(\w+) (\w+)<', answer.read().decode())
    assert code
    return f"/enter?code={code[1]}{code[2]}", Client(server.url, None)


def in_hall(server: Server) -> tuple[str, Client]:
    """A hall lets everyone in; its lecturer has opened the printed link."""
    link = re.search(r"/lecturer\?key=\S+", server.log.read_text())
    assert link
    lecturer = Client(server.url, server.trust)
    asyncio.run(lecturer.ask(link[0]))
    return "/answer", lecturer


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if every histogram was complete in time."""
    parser = parser_of(__doc__)
    parser.add_argument("--phones", type=bounded(int, 1, 1000), default=300)
    parser.add_argument("--processes", type=bounded(int, 1, 64), default=1, help="above 1: behind nginx (docs/hall.md)")
    parser.add_argument("--limit-s", type=bounded(float, 0.1, 60), default=3.0, help="until a histogram is complete")
    options: argparse.Namespace = parser.parse_args(arguments)
    cores = share_cores()
    alone = options.processes == 1
    with running_room(None, ADDRESS) if alone else running_hall(options.processes) as server:
        enter, lecturer = (in_room if alone else in_hall)(server)
        result = asyncio.run(hold(server, options.phones, enter, lecturer))
    result |= {
        "limit_s": options.limit_s,
        "passed": result["lost"] == 0 and result["complete_s"] <= options.limit_s,
        "cores": cores,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    return finish(result, "answers", options.out)


if __name__ == "__main__":
    sys.exit(main())
