"""`serve`: an HTTP server."""

import contextlib
import logging
import re
import socket
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.options import RUN, CheckpointOption, SavedRun, takes_decoding_options
from translate.errors import InputError, RunError, install_hint

logger = logging.getLogger(__name__)


@takes_decoding_options(
    "beam_size length_penalty engine precision workers device", unused="reverse_weight", are_defaults=True
)
def serve(
    runs: Annotated[list[SavedRun], Argument(help="Run directories; the first is the default.", **RUN)],
    host: Annotated[str, Option(metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="The port; 0 chooses a free one.")] = 8000,
    token: Annotated[
        str | None,
        Option(envvar="TRANSLATE_TOKEN", metavar="TOKEN", help="Bearer token for requests; safer in the environment."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        Option(metavar="URL", help="A site whose pages may send requests, such as https://example.org."),
    ] = None,
    glossaries: Annotated[
        Path | None,
        Option(metavar="FILE", help="Keep the glossaries of DeepL's clients in this file after the server stops."),
    ] = None,
    checkpoint: CheckpointOption = "best",
    *,
    options: dict[str, Any],
) -> None:
    """Start an HTTP server with a web page for translating.

    By default it accepts only requests from this machine. Any other --host needs a token, which requests send in the
    header Authorization: Bearer TOKEN. After SIGTERM or Ctrl-C it finishes open requests, then exits.

    Examples:
      translate serve runs/demo
      translate serve runs/demo runs/multi30k --port 9000 --engine ctranslate2
      TRANSLATE_TOKEN=secret translate serve runs/demo --host 0.0.0.0
    """
    is_loopback = host.lower() in ("localhost", "127.0.0.1", "::1")
    if token is not None and not re.fullmatch("[!-~]([ -~]*[!-~])?", token):
        raise InputError("the token (TRANSLATE_TOKEN or --token) must be ASCII, like any header, and not empty")
    if not (is_loopback or token):
        raise InputError(f"--host {host} is open to other machines: give a token too (TRANSLATE_TOKEN or --token)")
    origins = tuple(map(_read_origin, cors_origin or ()))
    try:
        from translate.server.app import create_app
        from translate.server.connections import DrainingServer
        from translate.server.gate import Access, Metrics
        from translate.server.glossaries import Glossaries
        from translate.server.models import load_models
        from translate.server.schema import Limits
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} cannot be imported: {install_hint('serve')}") from error

    metrics, limits, stored = Metrics(), Limits(), Glossaries(glossaries)
    with _listen(host, port) as listener, contextlib.ExitStack() as threads:
        with show_progress(f"Loading {', '.join(map(str, runs))}"):
            models = load_models(runs, limits, metrics, checkpoint=checkpoint, options=options)
        for model in models.values():
            threads.callback(model.queue.close)
            logger.info(f"{model.name}: {model.languages}, searched by {model.engine}")
        app = create_app(models, limits, Access(token, is_loopback, origins), metrics, stored)
        address = f"[{host}]" if ":" in host else host
        logger.info(f"Listening on http://{address}:{listener.getsockname()[1]}. Press Ctrl-C to stop.")
        server = DrainingServer(app, seconds=limits.seconds)
        server.run(sockets=[listener])
    if server.num_unanswered:
        raise RunError(f"stopped; requests without an answer: {server.num_unanswered}")
    logger.info("Stopped; all requests were answered.")


def _read_origin(text: str) -> str:
    """A site as browsers write it in the header Origin."""
    origin = text.lower().removesuffix("/")
    if not re.fullmatch(r"\*|https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]+)?", origin):
        raise InputError(f"--cors-origin {text}: should be a site without a path, such as https://example.org, or *")
    return origin


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror or error}; choose others") from error
