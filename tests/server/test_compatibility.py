"""Requests of LibreTranslate and DeepL, by their public clients against a live server, and by hand."""

import contextlib
import urllib.error
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import deepl
import pytest
from fastapi import FastAPI
from libretranslatepy import LibreTranslateAPI
from py3langid import langid
from starlette.testclient import TestClient

from translate.config.data import DataConfig
from translate.config.languages import Languages
from translate.decoding.loading import load_own_translator
from translate.documents.document import translate_documents, word_weights
from translate.server.compatibility import add_paths
from translate.server.gate import Access, Metrics
from translate.server.glossaries import Glossaries
from translate.server.models import ServedModel

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "<p>Hund &amp; <b>Haus</b> <!-- x --></p>\n<p>grün</p>"
GERMAN = "Ein Hund läuft über die Straße."
TEXT = "Hund läuft und\n\nschläft grün & Haus"


def percents_of(text: str, code: str) -> float:
    """The confidence that py3langid computes itself, among all of its languages."""
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    return round(100 * dict(identifier.rank(text))[code], 1)


@pytest.fixture(scope="module")
def expected(runs: list[Path]) -> str:
    """The text line by line, by the first model."""
    translator = load_own_translator(runs[0]).translator
    return "\n".join(translator.translate(line).text for line in TEXT.split("\n"))


@pytest.fixture(scope="module")
def page(runs: list[Path]) -> str:
    """The page as `decode --document` translates it by the first model."""
    translator = load_own_translator(runs[0]).translator
    (found,) = translate_documents([PAGE], "html", translator.translate_stream, partial(word_weights, translator))
    assert found.text != PAGE and not found.problems
    return found.text


def test_libretranslates_client(make_live: Callable[..., str], runs: list[Path], expected: str) -> None:
    address = make_live(Access(token="right"))
    client = LibreTranslateAPI(address, api_key="right")
    assert client.translate(TEXT, "de", "en") == expected
    other = load_own_translator(runs[1]).translator.translate("green dog").text
    assert client.translate("green dog", "auto", "de") == other
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    assert client.detect(GERMAN)[0] == {"language": "de", "confidence": percents_of(GERMAN, "de")}
    stranger = LibreTranslateAPI(address, api_key="wrong")
    for ask in (partial(stranger.translate, TEXT, "de", "en"), partial(stranger.detect, TEXT)):
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            ask()
        refused.value.close()
    with pytest.raises(urllib.error.HTTPError, match="400") as unknown:
        client.translate(TEXT, "de", "fr")
    assert b"de to fr" in unknown.value.read()
    unknown.value.close()


def test_deepls_client(make_live: Callable[..., str], runs: list[Path], expected: str, page: str) -> None:
    ja = load_own_translator(runs[0]).translator.translate("Ja!").text.strip()  # a document has no space at its end
    address = make_live(Access(token="right"))
    with contextlib.closing(deepl.DeepLClient("right", server_url=address, send_platform_info=False)) as client:
        one, empty = client.translate_text([TEXT, ""], source_lang="DE", target_lang="EN-US")
        assert (one.text, one.detected_source_lang, one.billed_characters) == (expected, "DE", len(TEXT))
        assert (empty.text, empty.billed_characters) == ("", 0)
        assert client.translate_text("Ja!", target_lang="EN-GB").detected_source_lang == "DE"
        assert [each.code for each in client.get_source_languages()] == ["DE", "EN"]
        assert [each.code for each in client.get_target_languages()] == ["EN", "DE"]
        usage = client.get_usage()
        assert usage.character.count == len(TEXT) - 2 + 3 and not usage.any_limit_reached
        with pytest.raises(deepl.DeepLException, match="DE to FR"):
            client.translate_text("Ja!", source_lang="DE", target_lang="FR")
        pages = client.translate_text([PAGE, "<x id='1'/>Ja!"], target_lang="EN-GB", tag_handling="html")
        assert [each.text for each in pages] == [page, f"<x id='1'/>{ja}"]
        refused: dict[str, Any] = {"style_rule": "7", "translation_memory": "7"}
        for name, value in (refused | {"custom_instructions": ["x"], "formality": "more"}).items():
            with pytest.raises(deepl.DeepLException, match="not supported; remove it|formality = 'more'"):
                client.translate_text("Ja!", source_lang="DE", target_lang="EN-GB", **{name: value})
        taken: dict[str, Any] = {"context": "x", "preserve_formatting": True, "model_type": "latency_optimized"}
        more = client.translate_text("Ja!", target_lang="EN-GB", formality="prefer_less", **taken)
        assert cast(deepl.TextResult, more).text == client.translate_text("Ja!", target_lang="EN-GB").text
    with contextlib.closing(deepl.DeepLClient("wrong", server_url=address, send_platform_info=False)) as stranger:
        with pytest.raises(deepl.AuthorizationException, match="Bearer TOKEN"):
            stranger.get_usage()
        with pytest.raises(deepl.AuthorizationException, match="Bearer TOKEN"):
            stranger.translate_text("Ja!", target_lang="EN-GB")


def test_lists_and_alternatives_of_libretranslate(client: TestClient, runs: list[Path], page: str) -> None:
    translator = load_own_translator(runs[0], options={"n_best": 3}).translator
    found = [translator.translate(text) for text in ("grün Hund", "Ja!")]
    question: dict[str, Any] = {"q": ["grün Hund", "Ja!"], "source": "auto", "target": "en", "alternatives": 2}
    answer = client.post("/translate", json=question).json()
    confidence = percents_of("grün Hund\nJa!", "de")
    assert answer == {
        "translatedText": [each.text for each in found],
        "alternatives": [[other.text for other in each.alternatives] for each in found],
        "detectedLanguage": [{"language": "de", "confidence": confidence}] * 2,  # of both texts together
    }
    one = client.post("/translate", json=question | {"q": "grün Hund"}).json()
    detected = {"detectedLanguage": {"language": "de", "confidence": percents_of("grün Hund", "de")}}
    assert one == {key: value[0] for key, value in answer.items()} | detected
    assert client.post("/translate", json=question | {"q": " "}).json()["alternatives"] == []  # only one text
    form = {"q": "grün Hund\nJa!", "source": "de", "target": "en", "alternatives": "1", "format": "text"}
    lines = client.post("/translate", data=form).json()  # joined by rank
    assert lines["translatedText"] == f"{found[0].text}\n{found[1].text}"
    assert lines["alternatives"] == ["\n".join(each.alternatives[0].text for each in found)]
    html = {"q": [PAGE, "7"], "source": "de", "target": "en", "format": "html"}
    assert client.post("/translate", json=html).json() == {"translatedText": [page, "7"]}


def test_clients_see_the_usual_codes_of_nllb() -> None:
    data = {"languages": ["deu_Latn", "zho_Hant"], "language_tags": "both", "source_language": "und"}
    app, served = FastAPI(), (data, data | {"languages": ["de", "zh-TW"]})
    known = [SimpleNamespace(languages=Languages(DataConfig.model_validate(each))) for each in served]
    add_paths(app, {"nllb": cast(ServedModel, known[0])}, Glossaries(), Access(), Metrics())
    client = TestClient(app)
    assert [each["language"] for each in client.get("/v2/languages").json()] == ["DE", "ZH-HANT"]
    assert [(each["code"], each["targets"]) for each in client.get("/languages").json()] == [
        ("de", ["zh-Hant"]),
        ("zh-Hant", ["de"]),
    ]
    both = FastAPI()
    add_paths(
        both,
        {str(number): cast(ServedModel, each) for number, each in enumerate(known)},
        Glossaries(),
        Access(),
        Metrics(),
    )
    codes = [each["code"] for each in TestClient(both).get("/languages").json()]
    assert codes == ["de", "zh-Hant", "zh-TW"]  # each once, though two models spell one of them differently


def test_texts_keep_their_line_ends(client: TestClient) -> None:
    question = {"q": "grün\n\nHaus\n", "source": "de", "target": "en", "alternatives": 1}
    expected = client.post("/translate", json=question).json()
    answer = client.post("/translate", json=question | {"q": "grün\r\n\r\nHaus\r\n"}).json()
    assert answer["translatedText"] == expected["translatedText"].replace("\n", "\r\n")
    assert answer["alternatives"] == [each.replace("\n", "\r\n") for each in expected["alternatives"]]


@pytest.mark.parametrize(
    "path, form, named",
    [
        ("/translate", {"q": "a", "target": "en", "format": "html", "alternatives": "2"}, "alternatives = 2"),
        ("/translate", {"q": "a", "target": "en", "format": "pdf"}, "format"),
        ("/translate", {"q": "a"}, "target"),
        ("/translate", {"q": "a", "target": "e" * 65}, "target"),
        ("/translate", {"q": "a", "target": "en", "source": "../de"}, "source"),
        ("/v2/translate", {"text": "a", "target_lang": "en/de"}, "target_lang"),
        ("/translate", {"q": "a", "target": "en", "alternatives": "99"}, "alternatives"),
        ("/v2/translate", {"text": "a"}, "target_lang"),
        ("/v2/translate", {"text": "a", "target_lang": "EN", "formality": "more"}, "formality = 'more'"),
        *(
            ("/v2/translate", {"text": "a", "target_lang": "EN", name: "7"}, f"{name} is not supported")
            for name in (
                *("glossary_ids", "style_id", "translation_memory_id", "translation_memory_threshold"),
                *("custom_instructions", "splitting_tags", "non_splitting_tags", "new_key"),
            )
        ),
    ],
)
def test_errors(client: TestClient, path: str, form: dict[str, str], named: str) -> None:
    """As these services do, with status 400; DeepL's clients read `message`."""
    for body in ({"data": form}, {"files": {name: (None, value) for name, value in form.items()}}):
        response = client.post(path, **body)
        assert response.status_code == 400
        assert all(value.startswith(named) for value in response.json().values())
        assert ("message" in response.json()) == path.startswith("/v2/")


def test_a_form_of_several_parts_is_read_as_any_other(client: TestClient) -> None:
    """Parts may be files, and their lines end with CR and LF."""
    fields = {"q": 'grün\r\n"Hund"; name=x', "source": "de", "target": "en"}
    expected = client.post("/translate", json=fields | {"q": 'grün\n"Hund"; name=x'}).json()
    assert client.post("/translate", data=fields).json() == expected
    for name in (None, "text.txt"):
        parts = {key: (name if key == "q" else None, value) for key, value in fields.items()}
        assert client.post("/translate", files=parts).json() == expected
    texts = [("text", (None, "grün")), ("text", (None, "Hund")), ("target_lang", (None, "EN"))]
    assert len(client.post("/v2/translate", files=texts).json()["translations"]) == 2


def test_omegats_plugin_sends_a_query(client: TestClient) -> None:
    fields = {"q": "grün & <b>Hund</b>?\nHaus", "source": "de", "target": "en"}
    expected = client.post("/translate", json=fields).json()
    assert client.get("/translate", params=fields).json() == expected
    assert client.get("/translate", params={"target": "en"}).status_code == 422
    assert client.get("/translate").status_code == 405


@pytest.mark.parametrize("how", ["data", "files"])
def test_a_field_that_a_form_repeats_is_a_list(client: TestClient, how: str) -> None:
    form = {"q": ["grün", "Hund"], "source": "de", "target": "en"}
    expected = client.post("/translate", json=form).json()
    parts = [("q", (None, text)) for text in form["q"]] + [(name, (None, form[name])) for name in ("source", "target")]
    sent: dict[str, Any] = {"data": form} if how == "data" else {"files": parts}
    assert client.post("/translate", **sent).json() == expected and len(expected["translatedText"]) == 2
    refused = client.post("/v2/translate", data={"text": "grün", "target_lang": ["EN", "DE"]})
    assert refused.status_code == 400 and "target_lang" in refused.text


@pytest.mark.parametrize(
    ("switch", "setting", "lines"),
    [
        *((switch, "never", 1) for switch in ("0", 0, False, "false")),
        *((switch, "always", 2) for switch in ("1", 1, True, "true")),
        ("nonewlines", "always", 1),
        ("", "auto", 2),
        (None, "auto", 2),
    ],
)
def test_deepls_switch_of_sentences(
    client: TestClient, runs: list[Path], switch: object, setting: str, lines: int
) -> None:
    """As text, as a number, as a boolean and in a form; lines are kept unless a sentence may go on in the next."""
    text = "Hund läuft. Haus schläft.\nStraße grün. Hund."
    translator = load_own_translator(runs[0], options={"split_sentences": setting}).translator
    expected = "\n".join(translator.translate(line).text for line in (text.split("\n") if lines == 2 else [text]))
    given = {"target_lang": "EN-US", **({} if switch is None else {"split_sentences": switch})}
    for body in ({"json": given | {"text": [f"{text}\n"]}}, {"data": given | {"text": f"{text}\n"}}):
        [found] = client.post("/v2/translate", **body).json()["translations"]  # type: ignore[arg-type]
        assert found["text"] == f"{expected}\n"
    absent = {"text": [f"{text}\n"], "tag_handling": "", "formality": "", "glossary": {}}
    assert client.post("/v2/translate", json=given | absent).json()["translations"][0]["text"] == f"{expected}\n"
    page = client.post("/v2/translate", json=given | {"text": [f"<p>{text}</p>"], "tag_handling": "html"})
    whole = translator.translate(text.replace("\n", " ")).text
    assert (page.json()["translations"][0]["text"] == f"<p>{whole}</p>") or setting != "never"


def test_texts_of_several_sentences(client: TestClient, runs: list[Path]) -> None:
    """A run that does not say that it learnt several sentences translates each alone, unless it is told otherwise."""
    text = "Hund läuft. Haus schläft. Straße grün."
    translator = load_own_translator(runs[0]).translator
    alone = translator.translate(text)
    assert [piece.source.strip() for piece in alone.pieces] == ["Hund läuft.", "Haus schläft.", "Straße grün."]
    assert client.post("/translate", json={"q": text, "source": "de", "target": "en"}).json() == {
        "translatedText": alone.text
    }
    for setting, flags in (("auto", ["split"]), ("never", [])):
        answer = client.post("/translate", json={"text": text, "options": {"split_sentences": setting}}).json()
        [found] = answer["translations"]
        assert [flag for flag in found["conditions"] if flag == "split"] == flags
        assert found["text"] == translator.translate(text, split_sentences=setting).text
    wrong = {"target_lang": "EN-US", "text": [text], "split_sentences": "2"}
    refused = client.post("/v2/translate", json=wrong)
    assert refused.status_code == 400 and "split_sentences" in refused.text
    wrong = {"text": text, "format": "text", "options": {"split_sentences": "2"}}
    assert client.post("/translate/document", json=wrong).status_code == 422
