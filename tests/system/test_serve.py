"""A server as a process: it listens, answers as `decode` does, survives clients that hang up, and drains on SIGTERM."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import make_toy, tiny_config

from translate.decoding.loading import load_translator

pytestmark = pytest.mark.timeout(300)  # other tests may keep the cores busy
LINES = ["Ein Hund läuft über die Straße.", "Der Hund schläft.", "Zwei Künstler danken den Eltern."]
MANY = {"text": [f"{line} {number}" for number in range(100) for line in LINES]}


class Serving:
    """The process, and its address."""

    def __init__(self, run: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("TRANSLATE_TOKEN", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "translate", "serve", str(run), "--port", "0"],
            stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stderr is not None
        told = ""
        for line in self.process.stderr:
            told += line
            if match := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        assert match, told
        self.port = int(match[1])

    def ask(self, path: str, question: Any = None) -> tuple[int, Any]:
        data = None if question is None else json.dumps(question).encode()
        url, headers = f"http://127.0.0.1:{self.port}{path}", {"content-type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, body = error.code, error.read()
        return status, json.loads(body) if body.startswith(b"{") else body.decode()

    def wait_until_metric(self, pattern: str) -> None:
        while not re.search(pattern, self.ask("/metrics")[1], re.MULTILINE):
            time.sleep(0.02)

    def wait_until_draining(self) -> None:
        while self.ask("/healthz")[0] == 200:
            pass


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config(
        model={"d_model": 32, "d_ff": 64},
        decoding={"engine": "translate", "precision": "fp32", "beam_size": 4, "max_length_factor": 2.0},
    )
    return make_toy(tmp_path_factory.mktemp("run") / "small", config, num_steps=0).path


@pytest.fixture
def server(run: Path) -> Iterator[Serving]:
    serving = Serving(run)
    with serving.process:
        yield serving
        serving.process.kill()


def test_it_answers_and_drains(server: Serving, run: Path) -> None:
    """What it has taken is answered after SIGTERM; what comes then is refused; it exits with 0."""
    expected = [each.text for each in load_translator(run, options={}).translator.translate(LINES)]
    status, answer = server.ask("/translate", {"text": LINES})
    assert status == 200 and [each["text"] for each in answer["translations"]] == expected
    answers: list[tuple[int, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(server.ask("/translate", MANY)))
    asking.start()
    server.wait_until_metric(r'^translate_waiting_characters\{model="small"\} [1-9]')
    server.process.send_signal(signal.SIGTERM)
    server.wait_until_draining()
    assert server.ask("/translate", {"text": "Ja"}) == (503, {"error": "the server is stopping"})
    asking.join()
    status, answer = answers[0]
    assert status == 200 and [each["source"] for each in answer["translations"]] == MANY["text"]
    _, told = server.process.communicate()
    assert server.process.returncode == 0 and told.startswith("Stopped; ")


def test_clients_that_keep_their_connections_lose_none_while_it_drains(server: Serving) -> None:
    """Each of them gets an answer to every request, the last with `Connection: close`."""
    last: list[tuple[int, str | None]] = []
    are_connected = threading.Barrier(25)

    def ask_on(pause: float) -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as client:
            closes = None
            client.request("GET", "/models")
            client.getresponse().read()
            are_connected.wait()
            while closes != "close":
                client.request("POST", "/translate", b'{"text": "Ja"}', {"content-type": "application/json"})
                answer = client.getresponse()
                answer.read()
                closes = answer.getheader("connection")
                time.sleep(pause)
            last.append((answer.status, closes))

    clients = [threading.Thread(target=ask_on, args=(0.02 * (number % 8),)) for number in range(24)]
    for client in clients:
        client.start()
    are_connected.wait()
    time.sleep(1)
    server.process.send_signal(signal.SIGTERM)
    for client in clients:
        client.join()
    assert len(last) == 24 and {status for status, _ in last} <= {200, 503}
    server.process.communicate()
    assert server.process.returncode == 0


def test_a_client_that_hangs_up_leaves_no_work_behind(server: Serving) -> None:
    body = json.dumps(MANY).encode()
    for path in ("/translate", "/translate/stream"):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            server.wait_until_metric(r'^translate_waiting_characters\{model="small"\} [1-9]')
        server.wait_until_metric(r'^translate_waiting_characters\{model="small"\} 0')
    assert server.ask("/translate", {"text": "Ja"})[0] == 200


def test_a_second_signal_does_not_wait(server: Serving) -> None:
    """The batch that is being computed is finished, and no other."""
    answers: list[tuple[int, Any]] = []
    slow = {"text": MANY["text"] * 3, "options": {"beam_size": 20}}
    asking = threading.Thread(target=lambda: answers.append(server.ask("/translate", slow)))
    asking.start()
    server.wait_until_metric(r'^translate_waiting_characters\{model="small"\} [1-9]')
    server.process.send_signal(signal.SIGINT)
    server.wait_until_draining()  # two signals that are pending together are one
    server.process.send_signal(signal.SIGINT)
    _, told = server.process.communicate()
    asking.join()
    assert answers[0][0] == 500
    assert (
        server.process.returncode == 1 and told.splitlines()[-1] == "translate: stopped; requests without an answer: 1"
    )
