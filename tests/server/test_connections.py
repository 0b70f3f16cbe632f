"""Connections without a request are closed, over real sockets."""

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from translate.server import connections

HALF = b"GET /healthz HTTP/1.1\r\nHost: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Clock:
    """The server's clock, which stands still until a test moves it."""

    now, num_looks = 0.0, 0

    def monotonic(self) -> float:
        self.num_looks += 1
        return self.now

    def move(self, seconds: float) -> None:
        """Move the clock once the server has looked at its connections, and wait until it has looked again."""
        for step in (seconds, 0.0):
            seen = self.num_looks
            while self.num_looks < seen + 2:
                time.sleep(0.01)
            self.now += step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(connections, "time", clock := Clock())
    return clock


@contextlib.contextmanager
def connected(address: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        yield [stack.enter_context(socket.create_connection(place, timeout=60)) for _ in range(count)]


def is_answered(client: socket.socket) -> bool:
    client.sendall(WHOLE)
    answer = b""
    while not answer.endswith(b"}") and (part := client.recv(1000)):
        answer += part
    return answer.startswith(b"HTTP/1.1 200")


def test_a_server_without_free_descriptors_says_so_once_and_goes_on(
    make_live: Callable[..., str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Python 3.11 tries two thousand times per second, and would log each with its traceback."""
    address, num_tries, accept = make_live(), 0, socket.socket.accept

    def refuse(listener: socket.socket) -> object:
        nonlocal num_tries
        num_tries += 1
        if num_tries < 100:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", refuse)
    with connected(address, 1) as [client]:
        assert is_answered(client)
    [told] = [record.getMessage() for record in caplog.records if "Too many open files" in record.getMessage()]
    assert num_tries >= 100 and "\n" not in told


def test_idle_connections_and_slow_headers_are_closed(make_live: Callable[..., str], clock: Clock) -> None:
    """A byte now and then does not keep a connection open, but requests do."""
    with connected(make_live(), 3) as (silent, slow, busy):
        slow.sendall(HALF)
        for _ in range(3):
            clock.move(6)
            with contextlib.suppress(OSError):
                slow.sendall(b"x")
            assert is_answered(busy)
        assert silent.recv(1) == b""
        with contextlib.suppress(ConnectionResetError):  # what was sent after the end
            assert slow.recv(1) == b""


def test_clients_that_do_not_read_are_dropped(start: Callable[[Starlette], str], clock: Clock) -> None:
    """Of an answer that is complete, or a stream; a client that reads slowly gets all."""
    part = bytes(1_000_000)

    async def whole(request: Request) -> Response:
        return StreamingResponse(iter([part] * 30)) if request.url.path == "/stream" else Response(part * 30)

    app = Starlette(routes=[Route("/{name}", whole)])
    app.state.num_active, app.state.is_draining = 0, False
    with connected(start(app), 3) as clients:
        for client, path in zip(clients, (b"whole", b"stream", b"whole"), strict=True):
            client.sendall(b"GET /" + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = [0, 0, 0]
        with clients[2].makefile("rb") as answer:
            while data := answer.read(5_000_000):
                received[2] += len(data)
                clock.move(4)
        for number in (0, 1):
            with contextlib.suppress(ConnectionResetError):
                while data := clients[number].recv(500_000):
                    received[number] += len(data)
    assert max(received[:2]) < 30_000_000 < received[2]


def test_an_answer_to_head_has_no_body(make_live: Callable[..., str]) -> None:
    with connected(make_live(), 1) as (client,):
        client.sendall(b"HEAD /languages HTTP/1.1\r\nHost: LOCALHOST.:9\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 200") and b"content-length: " in answer and answer.endswith(b"\r\n\r\n")


def test_many_slow_clients_leave_room_for_others(
    make_live: Callable[..., str], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    address = make_live()
    with connected(address, 10) as many:
        for each in many:
            each.sendall(HALF)
        clock.move(2)
        with connected(address, 1) as (client,):
            assert is_answered(client)
