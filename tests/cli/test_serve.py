"""`serve` before it listens: what it refuses. tests/system/test_serve.py has a server that runs."""

import socket
from pathlib import Path

from harness import run_command as translate


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = translate("serve", tmp_path, "--port", str(port))
    assert result.exit_code == 2
    assert f"--host 127.0.0.1 --port {port}: Address already in use" in result.stderr
