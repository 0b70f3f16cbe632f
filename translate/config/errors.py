"""Errors in a config, in the user's terms: the key, its value, its bound or the nearest key, and the location."""

import json
import math
import re
import typing
from typing import Any

from pydantic import ValidationError

from translate.config.data import Augmentation, Corpus
from translate.config.schema import Config
from translate.config.yaml import Document, dump_scalar, join_key
from translate.nearest import did_you_mean, nearest

_KEY_IN_TEXT = re.compile(rf"\b(?:{'|'.join(Config.model_fields)})(?:\.\w+)+")
REMOVED_KEYS: dict[str, tuple[object, str]] = {  # keys of older versions: their default, and what to do now
    "decoding.coverage_penalty": (0.0, "the coverage penalty is no longer supported; use --reverse against omissions"),
    "decoding.diversity_groups": (1, "diverse beam search is no longer supported; sample for varied translations"),
    "decoding.diversity_strength": (0.5, "diverse beam search is no longer supported; leave it out"),
    "decoding.shortlist": (False, "shortlists are no longer supported; use --precision int8 for speed"),
}
_EXPECTED = {  # by pydantic's type of problem, where YAML has plainer words than JSON
    "bool_type": "should be true or false",
    "string_type": "should be text, in quotes if it looks like something else",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "model_type": "should be a section of keys and values, or be left out",
    "tuple_type": "should be a list, such as [a, b]",
    "dict_type": "should be a mapping of keys to values, such as {kind: tsv, path: a.tsv}",
}


def explain(error: ValidationError, document: Document) -> str:
    """Describe every problem that pydantic found, one per line."""
    problems = error.errors(include_url=False)
    return "\n".join(dict.fromkeys(_explain_problem(dict(problem), document) for problem in problems))


def _explain_problem(problem: dict[str, Any], document: Document) -> str:
    location = problem["loc"]
    key = _dotted_key(location)
    where = _where([key], document)
    match problem["type"]:
        case "json_invalid":  # by pydantic's limit, or half a surrogate pair
            return "the config is nested too deeply, or has text that is not UTF-8"
        case "extra_forbidden" if key in REMOVED_KEYS:
            return f"{key} was removed{where}: {REMOVED_KEYS[key][1]}"
        case "extra_forbidden":
            return f"unknown key {key}{where}{_suggestion(key, location)}"
        case "missing" | "union_tag_not_found":
            missing = key if problem["type"] == "missing" else f"{key}.kind"
            return f"{missing} is missing and has no default{where}"
        case "union_tag_invalid":
            kind, expected = problem["input"]["kind"], problem["ctx"]["expected_tags"]
            place = _where([f"{key}.kind"], document)
            return f"{key}.kind = {_shown(kind)}: should be one of {expected}{place}{suggested_choice(kind, expected)}"
        case "value_error":
            message = problem["msg"].removeprefix("Value error, ")
            if location[:1] == ("data",) and len(location) > 1:  # a corpus does not know its own key
                message = f"{key}.{message}"
            # The message names keys that do not agree, perhaps only one of which was given.
            return f"{message}{_where(_KEY_IN_TEXT.findall(message), document, exactly=True)}"
    expected = _EXPECTED.get(problem["type"]) or re.sub(r"^(Input|String) ", "", problem["msg"])
    choice = suggested_choice(problem["input"], expected) if problem["type"] == "literal_error" else ""
    return f"{key} = {_shown(problem['input'])}: {expected}{where}{choice}"


def suggested_choice(value: Any, choices: str) -> str:
    """The question "did you mean …?" for a wrong choice; empty if none of the quoted choices is similar."""
    return did_you_mean(nearest(value, re.findall("'([^']+)'", choices))) if isinstance(value, str) and value else ""


def _shown(value: Any) -> str:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    text = json.dumps(value, ensure_ascii=False, default=str) if is_finite else dump_scalar(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _where(keys: list[str], document: Document, *, exactly: bool = False) -> str:
    """The places where keys were given, in brackets; for a missing key, unless `exactly`, the place of its section."""
    places: dict[str, None] = {}
    for key in keys:
        while key and key not in document.origins and not exactly:
            key = key.rpartition(".")[0]
        if key in document.origins:
            places[str(document.origins[key])] = None
    return f" ({', '.join(places)})" if places else ""


def _dotted_key(location: tuple[int | str, ...]) -> str:
    """Turn pydantic's location into the user's key, without the kind of a corpus, which comes after its key."""
    hidden: tuple[int, ...] = ()
    if location[:1] == ("data",) and location[1:2] in (("train",), ("test",), ("validation_also",)):
        hidden = (3,)
    elif location[:2] == ("data", "validation"):  # before its name or kind: whether it is one corpus
        hidden = (2, 3 if location[2:3] == ("one",) else 4)
    return ".".join(str(part) for index, part in enumerate(location) if index not in hidden and part != "[key]")


def _suggestion(key: str, location: tuple[int | str, ...]) -> str:
    """The question "did you mean …?" for an unknown key."""
    parent, _, last = key.rpartition(".")
    if len(location) <= 2:
        return did_you_mean(nearest_keys(key))
    # A section of a corpus, or a corpus, whose kind precedes the key.
    kinds = typing.get_args(typing.get_args(Corpus)[0])
    by_kind = {kind: section for section in kinds for kind in typing.get_args(section.model_fields["kind"].annotation)}
    section = by_kind.get(location[-2], Augmentation)
    return did_you_mean([join_key(parent, name) for name in nearest(last, section.model_fields)])


def nearest_keys(key: str) -> list[str]:
    """The keys that `training.lr` or `lr` probably means: very similar ones anywhere, similar ones in its section."""
    parent, _, last = key.rpartition(".")
    sections = {name: getattr(field.annotation, "model_fields", {}) for name, field in Config.model_fields.items()}
    sections[""] = Config.model_fields
    anywhere = [name for names in sections.values() for name in names]
    near = nearest(last, anywhere, cutoff=0.8) or nearest(last, sections.get(parent, {}))
    keys = [join_key(section, name) for section, names in sections.items() for name in names if name in near]
    return [name for name in keys if parent and name.startswith(f"{parent}.")] or keys[:3]
