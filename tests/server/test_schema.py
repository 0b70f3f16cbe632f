"""The OpenAPI schema, with examples and errors of each path; and how translations become answers."""

import math

from starlette.testclient import TestClient

from translate.decoding import Translation
from translate.decoding.alignment import AlignmentLink
from translate.server.schema import TranslateRequest, TranslationAnswer


def test_openapi(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/translate", "/translate/stream", "/translate/document", "/score", "/attention", "/models", "/healthz",
        "/metrics",
        "/languages", "/v2/translate", "/v2/languages", "/v2/usage",
    }  # fmt: skip
    schemas = document["components"]["schemas"]
    for name in ("TranslateRequest", "ScoreRequest", "AttentionRequest", "LibreTranslateRequest", "DeepLRequest"):
        assert any("examples" in each for each in schemas[name]["properties"].values()), name
    assert schemas["TranslateRequest"]["properties"]["n_best"]["description"]
    either = document["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert {each["$ref"].rpartition("/")[2] for each in either} == {"TranslateRequest", "LibreTranslateRequest"}
    assert {"401", "413", "422", "429", "503", "504"} <= set(document["paths"]["/translate"]["post"]["responses"])


def test_no_page_loads_anything_from_another_host(client: TestClient) -> None:
    for path in ("/docs", "/redoc"):  # FastAPI's own would
        assert client.get(path).status_code == 404


def test_texts_and_settings_of_a_request() -> None:
    one, several = TranslateRequest(text="a", n_best=3), TranslateRequest(text=["a", "b"], options={"beam_size": 2})
    assert (one.texts, one.decoding) == (["a"], {"n_best": 3})
    assert (several.texts, several.decoding) == (["a", "b"], {"beam_size": 2})


def test_an_answer() -> None:
    other = Translation("x", "z", [6], -3.0, -2.0, truncated=False, source_truncated=False)
    given = other._replace(text="y", score=math.nan, truncated=True, alternatives=(other,), tokens=["▁y"])
    answer = TranslationAnswer.of(given, unknown="x", links=[AlignmentLink(1, 0), AlignmentLink(0, 0)])
    assert answer.model_dump(exclude={"source_tokens"}) == {
        "source": "x", "text": "y", "score": None, "conditions": ["truncated"], "unknown_characters": "x",
        "alternatives": [{"text": "z", "score": -2.0}], "alignment": [(0, 0), (1, 0)], "target_tokens": ["▁y"],
    }  # fmt: skip
