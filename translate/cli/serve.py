"""`serve`: runs as a server by HTTP."""

import ipaddress
import logging
import math
import socket
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from translate.cli.terminal.console import showing_activity
from translate.cli.terminal.options import CheckpointOption, complete_run, takes_decoding_options
from translate.errors import InputError, RunError, install_hint

logger = logging.getLogger(__name__)


@takes_decoding_options
def serve(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN...", help="Run directories; the first is the default.", autocompletion=complete_run),
    ],
    host: Annotated[str, Option(metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        Option(envvar="TRANSLATE_TOKEN", metavar="TOKEN", help="What requests must show. Better in the environment."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None, Option(metavar="URL", help="A site whose pages may ask, such as https://example.org.")
    ] = None,
    checkpoint: CheckpointOption = "best",
    *,
    options: dict[str, Any],
) -> None:
    """Answer requests for translations by HTTP, and show a page to translate on.

    A setting that is not given is the run's own; the defaults below are those of a config that leaves it out.

    It listens to this machine alone, unless --host names another address; it then needs a token, which a request has
    in the header Authorization: Bearer TOKEN. SIGTERM or Ctrl-C lets what was asked be answered first.

    Examples:
      translate serve runs/demo
      translate serve runs/demo runs/multi30k --port 9000 --engine ctranslate2
      TRANSLATE_TOKEN=secret translate serve runs/demo --host 0.0.0.0
    """
    is_loopback = _is_loopback(host)
    if not (is_loopback or token):
        raise InputError(f"--host {host} lets other machines ask: give a token too (TRANSLATE_TOKEN or --token)")
    try:
        import uvicorn

        from translate.server.app import create_app
        from translate.server.gate import Access, Metrics
        from translate.server.models import load_models
        from translate.server.schema import Limits
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} cannot be imported: {install_hint('serve')}") from error

    metrics, limits = Metrics(), Limits()
    with _listen(host, port) as listener:
        with showing_activity() as show:
            show(f"Loading {', '.join(map(str, runs))}")
            models = load_models(runs, limits, checkpoint=checkpoint, options=options, on_batch=metrics.observe_batch)
        app = create_app(models, limits, Access(token, is_loopback, tuple(cors_origin or ())), metrics)
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=1000,
            timeout_graceful_shutdown=1,
        )

        class DrainingServer(uvicorn.Server):
            """It refuses requests after the first signal, and ends when those that it has taken are answered."""

            drain_until, num_unanswered = math.inf, 0

            def handle_exit(self, sig: int, frame: Any) -> None:
                if app.state.is_draining:  # a second signal ends at once
                    self.drain_until = 0
                    return
                self.drain_until = time.monotonic() + limits.seconds
                app.state.is_draining = True

            async def on_tick(self, counter: int) -> bool:
                if app.state.is_draining and (not app.state.num_active or time.monotonic() > self.drain_until):
                    self.num_unanswered = app.state.num_active
                    return True
                return await super().on_tick(counter)

        for model in models.values():
            data = model.run.config.data
            logger.info(f"{model.name}: {data.source_language} → {data.target_language}, searched by {model.engine}")
        address = f"[{host}]" if ":" in host else host
        logger.info(f"Listening on http://{address}:{listener.getsockname()[1]}. Ctrl-C ends.")
        server = DrainingServer(config)
        server.run(sockets=[listener])
    if server.num_unanswered:
        raise RunError(f"stopped; requests without an answer: {server.num_unanswered}")
    logger.info("Stopped; every request was answered.")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror or error}; choose others") from error
