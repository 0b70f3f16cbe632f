"""`serve` before it listens: what it refuses. tests/system/test_serve.py has a server that runs."""

import socket
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Translate = Callable[..., Result]


def test_a_port_in_use(translate: Translate, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = translate("serve", tmp_path, "--port", str(port))
    assert result.exit_code == 2
    assert f"--host 127.0.0.1 --port {port}: Address already in use" in result.stderr
