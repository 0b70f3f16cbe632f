"""The server's connections: open requests are answered after a signal, and idle connections are closed."""

import asyncio
import functools
import logging
import math
import socket
import time
from typing import Any

import uvicorn
from starlette.applications import Starlette

_warn_once = functools.cache(logging.getLogger(__name__).warning)

MAX_CONNECTIONS = 1000
HEADER_SECONDS = 10.0  # the longest time until a request's headers are complete, or without reading any of an answer
CROWDED_SECONDS = 1.0  # the same while more than half of the connections are open
_QUIET_SECONDS = 0.5  # a stopping server ends after this long without requests


class DrainingServer(uvicorn.Server):
    """Serves until a signal arrives and open requests are answered; a second signal, or the time limit, ends it."""

    drain_until, last_active, num_unanswered = math.inf, 0.0, 0

    def __init__(self, app: Starlette, *, seconds: float) -> None:
        config = uvicorn.Config(
            app, ws="none", lifespan="on", log_config=None, log_level="warning", server_header=False
        )
        config.limit_concurrency, config.timeout_graceful_shutdown = MAX_CONNECTIONS, 1
        super().__init__(config)
        self.app_state, self.seconds = app.state, seconds
        self.idle_since: dict[tuple[Any, Any, int], float] = {}  # by connection, its last request and unsent bytes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""

        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if isinstance(error := context.get("exception"), OSError):  # Python 3.11 reports thousands per second
                _warn_once(f"A connection failed: {context['message']}: {error.strerror or error}")
            else:
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(report)
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to stop; at the second signal, stop."""
        self.drain_until = 0 if self.app_state.is_draining else time.monotonic() + self.seconds
        self.app_state.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Drop connections whose clients neither send requests nor read answers, and return whether to stop."""
        now, app_state, connections = time.monotonic(), self.app_state, list[Any](self.server_state.connections)
        limit = CROWDED_SECONDS if len(connections) > MAX_CONNECTIONS / 2 else HEADER_SECONDS
        states = [(client, client.cycle, client.transport.get_write_buffer_size()) for client in connections]
        idle = [state for state in states if state[2] or state[1] is None or state[1].response_complete]
        self.idle_since = {state: self.idle_since.get(state, now) for state in idle}
        for (connection, *_), since in self.idle_since.items():
            if now - since > limit:
                connection.transport.abort()  # `close` would wait until the client has read all
        if app_state.num_active or not app_state.is_draining:
            self.last_active = now
        if now > min(self.last_active + _QUIET_SECONDS, self.drain_until):
            self.num_unanswered = app_state.num_active
            return True
        return await super().on_tick(counter)
