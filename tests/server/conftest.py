"""Two runs with small models whose weights are drawn at random, and a server of them in this process."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from starlette.testclient import TestClient

from translate.config.data import TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import prepare_tokenizers
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.directory import create_run
from translate.runs.loading import build_model, get_parameters
from translate.server.app import create_app
from translate.server.gate import Access, Metrics
from translate.server.models import ServedModel, load_models
from translate.server.schema import Limits

GERMAN = ["Ein Hund läuft über die Straße.", "Der Hund schläft.", "Zwei Künstler danken den Eltern.", "Ja!"]
ENGLISH = ["A dog runs across the street.", "The dog sleeps.", "Two artists thank the parents.", "Yes!"]

MakeServer = Callable[..., TestClient]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """`first` and `second`, from German to English and from English to German."""
    folder = tmp_path_factory.mktemp("served")
    for seed, (name, source, target) in enumerate([("first", "de", "en"), ("second", "en", "de")]):
        config = Config(
            tokenizer=TokenizerConfig(vocab_size=320),
            model=ModelConfig(d_model=24, num_heads=3, d_ff=40, num_encoder_layers=1, num_decoder_layers=2),
            decoding=DecodingConfig(
                device="cpu",
                engine="translate",
                precision="fp32",
                beam_size=3,
                max_length_factor=0.3,
                max_length_constant=4,
            ),
        )
        config = config.model_copy(
            update={"data": config.data.model_copy(update={"source_language": source, "target_language": target})}
        )
        tokenizers = prepare_tokenizers(config.tokenizer, GERMAN, ENGLISH)
        torch.manual_seed(seed)
        model = build_model(config, tokenizers)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        run = create_run(folder / name, config=config, tokenizers=tokenizers, command=["translate", "train"])
        write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), "model."), {"step": "7"})
    return [folder / "first", folder / "second"]


@pytest.fixture
def make_models(runs: list[Path]) -> Iterator[Callable[..., dict[str, ServedModel]]]:
    """A function that loads the models; their threads end with the test."""
    made: list[ServedModel] = []

    def make(limits: Limits | None = None, metrics: Metrics | None = None, **options: Any) -> dict[str, ServedModel]:
        metrics = metrics or Metrics()
        models = load_models(
            runs, limits or Limits(), checkpoint="best", options=options, on_batch=metrics.observe_batch
        )
        made.extend(models.values())
        return models

    yield make
    for model in made:
        model.queue.close()


@pytest.fixture
def make_server(make_models: Callable[..., dict[str, ServedModel]]) -> MakeServer:
    """A function that gives a client of a server with limits and access of a test's own."""

    def make(access: Access | None = None, **limits: Any) -> TestClient:
        metrics, made = Metrics(), Limits(**limits)
        app: FastAPI = create_app(make_models(made, metrics), made, access or Access(), metrics)
        return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    return make


@pytest.fixture
def client(make_server: MakeServer) -> TestClient:
    return make_server()


@pytest.fixture
def run_async() -> Callable[..., Any]:
    """Runs a coroutine to its end."""
    return asyncio.run
