"""The server's connections: open requests are answered after a signal, and idle connections are closed."""

import math
import time
from typing import Any

import uvicorn
from starlette.applications import Starlette

MAX_CONNECTIONS = 1000
HEADER_SECONDS = 10.0  # for the headers of a request, on a connection without one
CROWDED_SECONDS = 1.0  # the same while more than half of the connections are in use
_QUIET_SECONDS = 0.5  # without a request before a stopping server ends


class DrainingServer(uvicorn.Server):
    """Serves until a signal arrives and open requests are answered; a second one, or the time limit, stops at once.

    Attributes:
        num_unanswered: Number of requests without an answer when it stopped.
    """

    def __init__(self, app: Starlette, *, seconds: float) -> None:
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.app_state, self.seconds, self.drain_until, self.num_unanswered = app.state, seconds, math.inf, 0
        self.last_active = 0.0
        self.idle_since: dict[tuple[Any, Any], float] = {}  # by connection and its last request

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to stop; at the second signal, stop."""
        self.drain_until = 0 if self.app_state.is_draining else time.monotonic() + self.seconds
        self.app_state.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Close idle connections, and tell whether to stop."""
        now, state = time.monotonic(), self.app_state
        self._close_idle_connections(now)
        if state.num_active or not state.is_draining:
            self.last_active = now
        if now > min(self.last_active + _QUIET_SECONDS, self.drain_until):
            self.num_unanswered = state.num_active
            return True
        return await super().on_tick(counter)

    def _close_idle_connections(self, now: float) -> None:
        """Close connections that have had no request for too long: silent ones, and those that send headers slowly."""
        connections: set[Any] = self.server_state.connections
        is_crowded = len(connections) > MAX_CONNECTIONS / 2
        limit = CROWDED_SECONDS if is_crowded else HEADER_SECONDS
        idle = [(each, each.cycle) for each in connections if each.cycle is None or each.cycle.response_complete]
        self.idle_since = {each: self.idle_since.get(each, now) for each in idle}
        for (connection, _), since in self.idle_since.items():
            if now - since > limit:
                connection.transport.close()
