"""Terminology of requests, and DeepL's glossaries, by the official client and by hand."""

import contextlib
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import deepl
import pytest
from starlette.testclient import TestClient

from translate.decoding import Request
from translate.decoding.constraints.terminology import Terminology
from translate.decoding.loading import load_own_translator
from translate.errors import InputError, RunError
from translate.server import glossaries
from translate.server.gate import Access
from translate.server.glossaries import Glossaries, Glossary

pytestmark = pytest.mark.usefixtures("no_shape_checks")

TERMS = {"Hund": "green house", "Haus": "dog"}
TEXT = "Der Hund läuft"
ABOUT = {"name": "animals", "source_lang": "de", "target_lang": "en", "entries": "Hund\tgreen house\nHaus\tdog"}


@pytest.fixture(scope="module")
def expected(runs: list[Path]) -> str:
    """The text with the terms, as the package itself translates it."""
    translator = load_own_translator(runs[0]).translator
    with_terms = translator.translate(Request(TEXT, terminology=Terminology(TERMS))).text
    assert "green house" in with_terms != translator.translate(TEXT).text
    return with_terms


@pytest.fixture
def connect(make_live: Callable[..., str]) -> Iterator[deepl.DeepLClient]:
    address = make_live(Access(token="right"))
    with contextlib.closing(deepl.DeepLClient("right", server_url=address, send_platform_info=False)) as client:
        yield client


def test_deepls_client_stores_and_uses_glossaries(connect: deepl.DeepLClient, expected: str) -> None:
    assert [(pair.source_lang, pair.target_lang) for pair in connect.get_glossary_languages()] == [
        ("de", "en"),
        ("en", "de"),
    ]
    made = connect.create_glossary("animals", "DE", "EN-US", TERMS)
    assert (made.ready, made.source_lang, made.target_lang, made.entry_count) == (True, "DE", "EN", 2)
    assert connect.get_glossary_entries(made) == TERMS
    [listed] = connect.list_glossaries()
    shown = connect.get_glossary(made.glossary_id)
    assert (listed.name, shown.name, shown.creation_time) == ("animals", "animals", made.creation_time)
    found = connect.translate_text(TEXT, source_lang="DE", target_lang="EN-GB", glossary=made)
    assert isinstance(found, deepl.TextResult) and found.text == expected
    page = connect.translate_text_with_glossary(f"<p>{TEXT}</p>", made, tag_handling="html")
    assert isinstance(page, deepl.TextResult) and page.text == f"<p>{expected}</p>"
    with pytest.raises(deepl.DeepLException, match="from DE to EN"):
        connect.translate_text("dog", source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    from_csv = connect.create_glossary_from_csv("csv", "de", "en", '"Haus, grün","green, house",de,en\r\nHund,dog')
    assert connect.get_glossary_entries(from_csv) == {"Haus, grün": "green, house", "Hund": "dog"}
    connect.delete_glossary(made)
    for ask in (connect.get_glossary, connect.get_glossary_entries, connect.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            ask(made.glossary_id)  # type: ignore[operator]
    assert [each.name for each in connect.list_glossaries()] == ["csv"]


@pytest.fixture
def usual_field_size() -> Iterator[None]:
    """The limit of a process that has not read a table."""
    limit = csv.field_size_limit(2**17)
    yield
    csv.field_size_limit(limit)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"entries": "Hund"}, "line 1"),
        ({"entries": "a\tb\n\nHund\t "}, "line 3"),
        ({"entries": "Hund\tdog\nHund\tcat"}, "line 2"),
        ({"entries": "Hund\tdog\tcat"}, "line 1"),
        ({"entries": "\n"}, "no terms"),
        ({"entries": "Hund,dog", "entries_format": "xlsx"}, "entries_format"),
        ({"source_lang": "../x"}, "source_lang"),
        ({"name": ""}, "name"),
        ({"name": "n" * 1001}, "name"),
        ({"target_lang": "fr"}, "de to fr"),
        ({"entries": f"{'a' * 150_000}\tb"}, "line 1: field larger"),
        ({"entries": f'a,b\n"{"a" * 150_000}",b', "entries_format": "csv"}, "line 2: field larger"),
    ],
)
@pytest.mark.usefixtures("usual_field_size")
def test_wrong_glossaries_are_refused(client: TestClient, changes: dict[str, str], named: str) -> None:
    for body in ({"json": ABOUT | changes}, {"data": ABOUT | changes}):
        response = client.post("/v2/glossaries", **body)  # type: ignore[arg-type]
        assert response.status_code == 400 and named in response.json()["message"]
    assert client.get("/v2/glossaries").json() == {"glossaries": []}


def test_surrogates_are_refused(client: TestClient) -> None:
    """They are valid in JSON, but not in the answers and the file."""
    as_json = {"Content-Type": "application/json"}  # httpx would encode them
    for key in ("entries", "name", "source_lang"):
        refused = client.post("/v2/glossaries", content=json.dumps(ABOUT | {key: "a\ud800\tb"}), headers=as_json)
        assert refused.status_code == 400 and key in refused.json()["message"]
    for terms in ({"a": "\ud800"}, {"\ud800": "a"}):
        refused = client.post("/translate", content=json.dumps({"text": "Hund", "terminology": terms}), headers=as_json)
        assert refused.status_code == 422 and "surrogate" in refused.json()["error"]


def test_the_server_makes_id_and_time(client: TestClient) -> None:
    csv = {"entries": '"a\nb",c\r\nd,e', "entries_format": "csv"}  # a line end in quotes is a space
    body = ABOUT | csv | {"glossary_id": "../../x", "creation_time": "never"}
    made = client.post("/v2/glossaries", json=body).json()
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert "x" not in made["glossary_id"] and made["creation_time"].startswith("20") and made["entry_count"] == 2
    assert client.get("/v2/glossaries").json() == {"glossaries": [made]}
    assert client.get(f"{path}/entries").text == "a b\tc\nd\te"
    assert client.delete(path).status_code == 204 and client.get(path).status_code == 404


def test_glossaries_are_limited_and_stay_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossaries, "_MOST", 2)
    path = tmp_path / "glossaries.json"
    stored = Glossaries(path)
    assert json.loads(path.read_bytes()) == {}
    made = {"creation_time": "2026-01-31", "entries": "Straße\tstreet"}
    one, other = (Glossary.model_validate(ABOUT | made | {"name": name, "glossary_id": name}) for name in "ab")
    stored.store({one.glossary_id: one})
    stored.store({**stored.by_id, other.glossary_id: other})
    with pytest.raises(InputError, match="2 glossaries"):
        stored.store({**stored.by_id, "third": one})
    again = Glossaries(path)
    assert dict(again.by_id) == dict(stored.by_id) and again[one.glossary_id].terms == {"Straße": "street"}
    for content in ("[]", path.read_text(encoding="utf-8").replace("\\t", " ")):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match="glossaries.json"):
            Glossaries(path)
    with pytest.raises(RunError, match="missing"):
        Glossaries(tmp_path / "missing" / "glossaries.json")


def test_our_own_requests_have_terminology(client: TestClient, expected: str) -> None:
    answer = client.post("/translate", json={"text": [TEXT, "grün"], "terminology": TERMS}).json()
    assert answer["translations"][0]["text"] == expected
    assert (
        answer["translations"][1]["text"]
        == client.post("/translate", json={"text": "grün"}).json()["translations"][0]["text"]
    )
    document = {"text": f"<p>{TEXT}</p>", "format": "html", "terminology": TERMS}
    assert client.post("/translate/document", json=document).json()["text"] == f"<p>{expected}</p>"
    for terms in ({"": "dog"}, {"Hund": " "}, {"Hund": "猫"}):  # the last is not in the vocabulary
        refused = client.post("/translate", json={"text": TEXT, "terminology": terms})
        assert refused.status_code == 422 and "terminology" in refused.json()["error"]


def test_elements_of_ignored_tags_are_copied(client: TestClient) -> None:
    """As Weblate sends its placeholders: as elements without text."""
    text = 'grün <x id="3">Hund</x> <p translate="no">Haus</p> & <keep>Hund</keep>'
    body = {"target_lang": "EN", "source_lang": "DE", "tag_handling": "xml", "text": [text, "Hund"]}
    for ignored in (["x", "keep"], "x,keep"):
        one, other = client.post("/v2/translate", json=body | {"ignore_tags": ignored}).json()["translations"]
        for part in ('<x id="3">Hund</x>', '<p translate="no">Haus</p>', "<keep>Hund</keep>"):
            assert part in one["text"]
        assert "Hund" not in other["text"] and json.dumps(one).count("translate=") == 1
