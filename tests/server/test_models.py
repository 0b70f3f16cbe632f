"""Names, options and engines of served models, and limits of jobs."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.errors import InputError
from translate.server.gate import Metrics
from translate.server.models import ServedModel, load_models
from translate.server.schema import AttentionRequest, Limits

Make = Callable[..., dict[str, ServedModel]]


def with_loop(function: Callable[[], Any]) -> Any:
    """Jobs belong to an event loop."""

    async def call() -> Any:
        return function()

    return asyncio.run(call())


def test_names(make_models: Make, runs: list[Path], tmp_path: Path) -> None:
    assert list(make_models()) == ["first", "second"]
    copy = tmp_path / "first"
    shutil.copytree(runs[0], copy)
    models = load_models([runs[0], copy], Limits(), Metrics(), checkpoint="best", options={})
    assert list(models) == [str(runs[0]), str(copy)]
    for model in models.values():
        model.queue.close()
    with pytest.raises(InputError, match=f"{runs[0]}: one of them is named twice"):
        load_models([runs[0], runs[0]], Limits(), Metrics(), checkpoint="best", options={})
    shutil.copytree(runs[0], tmp_path / "r\udcff")
    [model] = make_models(paths=[tmp_path / "r\udcff"]).values()
    assert '"r\\\\udcff"' in model.describe().model_dump_json()  # which is UTF-8


def test_options_of_the_server_are_defaults_of_requests(make_models: Make) -> None:
    model = make_models(beam_size=2, length_penalty=1.0, workers=3)["first"]
    assert [model.describe().settings[key] for key in ("beam_size", "workers")] == [2, 3]
    job = with_loop(lambda: model.translation_job(["a"], {"length_penalty": 0.5}))
    assert (job.translator.config.beam_size, job.translator.config.length_penalty) == (2, 0.5)
    same = with_loop(lambda: model.translation_job(["a"], {"length_penalty": 0.5}))
    assert same.translator is job.translator and same.key == job.key


def test_an_n_best_list_has_a_beam_that_holds_it(make_models: Make) -> None:
    model = make_models(beam_size=6)["first"]
    assert with_loop(lambda: model.translation_job(["a"], {"n_best": 7})).translator.config.beam_size == 7


@pytest.mark.parametrize("options", [{"search": "sample"}, {"long": "error"}])
def test_requests_that_share_no_batch(make_models: Make, options: dict[str, Any]) -> None:
    job = with_loop(lambda: make_models()["first"].translation_job(["a"], options, shows_partial=True))
    assert job.key is None and job.shows_partial == ("search" not in options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_best": 40}, "options.n_best = 40: the limit is 32"),
        ({"mbr": "chrf", "mbr_candidates": 50}, "options.mbr_candidates = 50: the limit is 32"),
        ({"max_length_factor": 50.0}, "options.max_length_factor = 50.0: the limit is 4.0"),
        ({"max_source_tokens": 4096}, "options.max_source_tokens = 4096: the limit is 256"),
        ({"n_best": 4, "beam_size": 2}, "n_best"),
        *(({key: 1}, f"options.{key} cannot") for key in ("reverse_weight", "max_target_tokens")),
    ],
)
def test_options_that_are_refused(make_models: Make, options: dict[str, Any], message: str) -> None:
    model = make_models()["first"]
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        with_loop(lambda: model.translation_job(["a"], options))


def test_attention_is_limited(make_models: Make) -> None:
    model = make_models()["first"]
    with pytest.raises(InputError, match="the limit is 128"):
        with_loop(lambda: model.attention_job(AttentionRequest(source="Hund " * 300, target="dog")))
    with pytest.raises(InputError, match="text 2 .*20000"):
        with_loop(lambda: model.attention_job(AttentionRequest(source="a", target="b" * 20_000)))


def test_calls_ask_after_each_batch_whether_they_are_cancelled(make_models: Make) -> None:
    model = make_models(batch_tokens=1)["first"]
    made, asked = model.translator.translate(["a", "b"]), list[int]()
    with_loop(lambda: model.alignment_job(made, {})).call(asked.append)
    assert asked == [1, 1]


def test_ctranslate2_serves_from_the_first_request(make_models: Make) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    for engine in ("auto", "ctranslate2"):
        models = make_models(engine=engine)
        assert {model.describe().engine for model in models.values()} == {"ctranslate2"}
        assert models["first"].translator.config.workers == 1  # each thread of the queue searches by itself


@pytest.mark.usefixtures("no_shape_checks")
def test_clients_that_leave_do_not_hold_up_others(make_models: Make) -> None:
    """Each text of the clients that leave would take seconds, in batches of their own and in those of the others."""
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    model = make_models(engine="ctranslate2", workers=2, beam_size=8, max_length_factor=4.0)["first"]

    async def ask() -> float:
        leaving = [model.translation_job(["x" * 10_000], {}) for _ in range(8)]
        staying = [model.translation_job(["Hund läuft."], {}) for _ in range(8)]
        for job in [*leaving[:6], *staying[:4], *leaving[6:], *staying[4:]]:
            model.queue.submit(job)
            await asyncio.sleep(0.02)
        started = asyncio.get_running_loop().time()
        for job in leaving:
            model.queue.cancel(job)
        for job in staying:
            async for _ in job.results(started + 100):
                pass
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(ask()) < 2
