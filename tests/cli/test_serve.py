"""`serve` before it listens: what it refuses. tests/system/test_serve.py has a server that runs."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Translate = Callable[..., Result]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_without_a_token_it_listens_to_this_machine_alone(translate: Translate, tmp_path: Path, host: str) -> None:
    result = translate("serve", tmp_path, "--host", host)
    assert result.exit_code == 2
    assert f"--host {host} lets other machines ask: give a token too (TRANSLATE_TOKEN or --token)" in result.stderr


def test_a_port_in_use(translate: Translate, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = translate("serve", tmp_path, "--port", str(port))
    assert result.exit_code == 2
    assert f"--host 127.0.0.1 --port {port}: Address already in use" in result.stderr


def test_a_run_that_is_none(translate: Translate, tmp_path: Path) -> None:
    result = translate("serve", tmp_path, "--port", "0")
    assert result.exit_code == 2 and str(tmp_path) in result.stderr
