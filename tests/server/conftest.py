"""Two runs with small models that have begun to learn a toy language, and servers of them in this process."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from harness import make_two_ways, random_model, tiny_config, toy_tokenizers, write_run
from starlette.applications import Starlette
from starlette.testclient import TestClient

from translate.server.app import create_app
from translate.server.connections import DrainingServer
from translate.server.gate import Access, Metrics
from translate.server.models import ServedModel, load_models
from translate.server.schema import Limits

MakeClient = Callable[..., TestClient]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """`first` and `second`, from German to English and from English to German; they have begun to learn."""
    folder = tmp_path_factory.mktemp("served")
    for seed, (name, source, target) in enumerate([("first", "de", "en"), ("second", "en", "de")]):
        config = tiny_config(
            data={"source_language": source, "target_language": target},
            model={"d_model": 36, "num_heads": 3, "d_ff": 64, "num_decoder_layers": 2, "dropout": 0.0, "norm": "pre"},
            decoding={"beam_size": 3, "max_length_factor": 0.3, "engine": "translate", "precision": "fp32"},
        )
        tokenizers = toy_tokenizers(vocab_size=60, byte_fallback=False)
        torch.manual_seed(seed)
        model = random_model(tokenizers, noise=0.3, **config.model.model_dump(exclude_defaults=True))
        write_run(folder / name, config, tokenizers, model)
    return [folder / "first", folder / "second"]


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`both`, from German to English and back; it knows the name of Italian, but nothing else about it."""
    many = {"data": {"languages": ["de", "en", "it"]}}
    made = make_two_ways(tmp_path_factory.mktemp("both"), ["both"], num_steps=0, **many)
    return made["both"].path


@pytest.fixture
def make_models(runs: list[Path]) -> Iterator[Callable[..., dict[str, ServedModel]]]:
    """A function that loads the models; their threads end with the test."""
    made: list[ServedModel] = []

    def make(
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        paths: Sequence[Path] | None = None,
        **options: Any,
    ) -> dict[str, ServedModel]:
        paths = paths or runs
        models = load_models(paths, limits or Limits(), metrics or Metrics(), checkpoint="best", options=options)
        made.extend(models.values())
        return models

    yield make
    for model in made:
        model.queue.close()


@pytest.fixture
def make_app(make_models: Callable[..., dict[str, ServedModel]]) -> Callable[..., FastAPI]:
    """A function that makes an application with limits and access of a test's own."""

    def make(access: Access | None = None, *, paths: Sequence[Path] | None = None, **limits: Any) -> FastAPI:
        metrics, made = Metrics(), Limits(**limits)
        return create_app(make_models(made, metrics, paths), made, access or Access(), metrics)

    return make


@pytest.fixture
def make_client(make_app: Callable[..., FastAPI]) -> MakeClient:
    """The same as a client in this process."""

    def make(access: Access | None = None, **limits: Any) -> TestClient:
        app = make_app(access, **limits)
        return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    return make


@pytest.fixture(scope="module")
def client(runs: list[Path]) -> Iterator[TestClient]:
    """A client of one server for the tests of a module; those that count requests start their own."""
    limits, metrics = Limits(), Metrics()
    models = load_models(runs, limits, metrics, checkpoint="best", options={})
    app = create_app(models, limits, Access(), metrics)
    yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    for model in models.values():
        model.queue.close()


@pytest.fixture
def start() -> Iterator[Callable[[Starlette], str]]:
    """A function that starts a server of an application on a free port, and gives its address."""
    running: list[tuple[DrainingServer, threading.Thread]] = []

    def start(app: Starlette) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        server = DrainingServer(app, seconds=60)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.fixture
def make_live(make_app: Callable[..., FastAPI], start: Callable[[Starlette], str]) -> Callable[..., str]:
    """A function that starts a server, with limits and access of a test's own, and gives its address."""
    return lambda access=None, **limits: start(make_app(access, **limits))
