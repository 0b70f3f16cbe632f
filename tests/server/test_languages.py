"""A model of several languages: requests name theirs, in every API, and share batches."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import write_run
from starlette.testclient import TestClient

from translate.decoding import Translator
from translate.decoding.loading import load_own_translator
from translate.documents.document import translate_documents, word_weights
from translate.runs.run import open_run
from translate.server.models import ServedModel

pytestmark = pytest.mark.usefixtures("no_shape_checks")

DOG, BACK = "grün Hund läuft", "green dog runs"


@pytest.fixture(scope="module")
def translator(both: Path) -> Translator:
    return load_own_translator(both).translator


@pytest.fixture
def served(make_client: Any, both: Path) -> TestClient:
    client: TestClient = make_client(paths=[both])
    return client


def test_a_request_names_its_languages(served: TestClient, translator: Translator) -> None:
    for languages, text in (({"to": "en"}, DOG), ({"to": "deu_Latn", "from": "EN"}, BACK)):
        answer = served.post("/translate", json={"text": text, "alignment": True, **languages}).json()
        found = translator.translate(text, to=languages["to"][:2])
        assert answer["translations"][0]["text"] == found.text
        assert "▁__de__" not in answer["translations"][0]["source_tokens"]
    page = {"text": f'<html lang="de"><p>{DOG}</p></html>', "format": "html", "to": "en", "from": "de"}
    toward = translator.toward(to="en")
    align = partial(word_weights, toward)
    (expected,) = translate_documents([page["text"]], "html", toward.translate_stream, align, toward.direction)
    assert served.post("/translate/document", json=page).json()["text"] == expected.text
    assert expected.text.startswith('<html lang="en">')


def test_batches_mix_languages(translator: Translator, both: Path, make_models: Any) -> None:
    (model,) = make_models(paths=[both]).values()
    assert isinstance(model, ServedModel)

    async def jobs() -> list[Any]:
        ways = [model.translation_job([text], {}, model.choose(to, None)) for to, text in (("en", DOG), ("de", BACK))]
        assert ways[0].key == ways[1].key is not None
        model.queue._compute([(job, 0) for job in ways])
        return [(await job.events.get()).value.text for job in ways]

    assert asyncio.run(jobs()) == [translator.translate(DOG, to="en").text, translator.translate(BACK, to="de").text]


def test_attention_of_a_direction(served: TestClient) -> None:
    answer = served.post("/attention", json={"source": BACK, "target": DOG, "to": "de"}).json()
    assert answer["num_tags"] == [1, 1]
    assert answer["source_tokens"][0] == "▁__en__" and answer["target_tokens"][0] == "▁__de__"


def test_what_a_model_does_not_have_is_named(served: TestClient) -> None:
    for question, named in [
        ({"text": DOG}, ["both", "en, de, it", "`to`"]),
        ({"text": DOG, "to": "fr"}, ["both", "en, de, it", "'fr'"]),
        ({"text": DOG, "to": "it"}, ["both", "de, en, it", "`from`"]),  # nothing says which of the others it is
        ({"text": DOG, "to": "it", "from": "cs"}, ["'cs'"]),
    ]:
        response = served.post("/translate", json=question)
        assert response.status_code == 422 and all(word in response.json()["error"] for word in named), response.json()
        assert "--" not in response.json()["error"], "that would be an option of the command line"


def test_the_lists_of_all_models(make_client: Any, runs: list[Path], both: Path) -> None:
    client = make_client(paths=[runs[0], both])
    first, second = client.get("/models").json()["models"]
    assert first["directions"] == {"de": ["en"]}
    assert (second["directions"], second["languages"]) == ({"de": ["en"], "en": ["de"]}, ["de", "en", "it"])
    assert (second["source_language"], second["target_language"]) == ("de", "en")
    codes = ["de", "en", "it"]
    listed = {each["code"]: sorted(each["targets"]) for each in client.get("/languages").json()}
    assert listed == {code: [other for other in codes if other != code] for code in codes}
    for side in ("source", "target"):
        codes = [each["language"] for each in client.get(f"/v2/languages?type={side}").json()]
        assert sorted(codes) == ["DE", "EN", "IT"]


def test_services_choose_a_direction(served: TestClient, translator: Translator) -> None:
    to_german = translator.translate(BACK, to="de").text
    libre = {"q": BACK, "source": "en", "target": "de"}
    assert served.post("/translate", json=libre).json() == {"translatedText": to_german}
    for any_language in ("auto", "AUTO", ""):
        auto = served.post("/translate", json=libre | {"source": any_language}).json()
        assert auto["translatedText"] == to_german and auto["detectedLanguage"]["language"] == "en"
    (deepl,) = served.post("/v2/translate", json={"text": [BACK], "target_lang": "DE"}).json()["translations"]
    assert (deepl["text"], deepl["detected_source_language"]) == (to_german, "EN")
    response = served.post("/v2/translate", json={"text": [BACK], "target_lang": "FR", "source_lang": "EN"})
    assert response.status_code == 400 and "EN to FR" in response.json()["message"]


def test_a_text_goes_to_the_model_of_its_language(make_client: Any, runs: list[Path], tmp_path: Path) -> None:
    paths = []
    for run in reversed(runs):  # from English, and from German
        loaded = open_run(run).load_model()
        data = loaded.config.data.model_copy(update={"target_language": "it"})
        config = loaded.config.model_copy(update={"data": data})
        paths.append(write_run(tmp_path / run.name, config, loaded.tokenizers, loaded.model))
    client = make_client(paths=paths)
    for text, code in (("Ein grüner Hund läuft über die Straße", "de"), ("A green dog is running", "en")):
        for source in ({"source": "auto"}, {}):
            answer = client.post("/translate", json={"q": text, "target": "it", **source}).json()
            assert answer["detectedLanguage"]["language"] == code
            best, *others = client.post("/detect", json={"q": [text]}).json()
            assert best == answer["detectedLanguage"] and best["confidence"] > 20
            assert all(1 <= other["confidence"] < best["confidence"] for other in others)
        page = {"text": [f"<p title='The dog of the house'>{text}</p>"], "target_lang": "IT", "tag_handling": "html"}
        [translation] = client.post("/v2/translate", json=page).json()["translations"]
        assert translation["detected_source_language"] == code.upper()
    nothing = client.post("/detect", data={"q": "123"}).json()
    assert nothing[0]["confidence"] < 1  # one of py3langid's 140


def test_romanised_texts_are_other_languages(make_client: Any, both: Path, tmp_path: Path) -> None:
    loaded = open_run(both).load_model()
    data = loaded.config.data.model_copy(update={"languages": ("hi", "hi_Latn", "en")})
    config = loaded.config.model_copy(update={"data": data})
    client = make_client(paths=[write_run(tmp_path / "hindi", config, loaded.tokenizers, loaded.model)])
    found = client.post("/detect", json={"q": "यह एक कुत्ता है और वह घर के सामने दौड़ रहा है"}).json()
    assert found[0]["language"] == "hi" and "hi-Latn" not in [each["language"] for each in found]
    same = client.post("/translate", json={"q": "कुत्ता", "source": "hi", "target": "hi"})
    assert same.status_code == 400 and "hi to hi" in same.json()["error"]


def test_services_know_the_locales_of_mbart(make_client: Any, runs: list[Path], tmp_path: Path) -> None:
    loaded = open_run(runs[0]).load_model()
    data = loaded.config.data.model_copy(update={"source_language": "de_DE", "target_language": "en_XX"})
    config = loaded.config.model_copy(update={"data": data})
    client = make_client(paths=[write_run(tmp_path / "locales", config, loaded.tokenizers, loaded.model)])
    for target in ("EN-US", "EN-GB", "en"):
        answer = client.post("/v2/translate", json={"text": ["Ein Hund läuft über die Straße"], "target_lang": target})
        assert answer.json()["translations"][0]["detected_source_language"] == "DE", answer.json()
    listed = [(each["code"], each["name"]) for each in client.get("/languages").json()]
    assert listed == [("de", "German"), ("en", "English")]
    assert [each["language"] for each in client.get("/v2/languages?type=target").json()] == ["EN"]


def test_languages_that_cannot_be_detected(make_client: Any, runs: list[Path], tmp_path: Path) -> None:
    loaded = open_run(runs[0]).load_model()
    data = loaded.config.data.model_copy(update={"source_language": "tlh"})
    config = loaded.config.model_copy(update={"data": data})
    client = make_client(paths=[write_run(tmp_path / "klingon", config, loaded.tokenizers, loaded.model)])
    answer = client.post("/translate", json={"q": DOG, "target": "en", "source": "auto"}).json()
    assert answer["detectedLanguage"] == {"language": "tlh", "confidence": 0.0}
    assert [each["name"] for each in client.get("/languages").json()] == ["Klingon", "English"]
