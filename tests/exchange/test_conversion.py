"""What the files say cannot be overridden, and every weight has a place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from translate.errors import InputError
from translate.exchange.conversion import convert, require
from translate.exchange.marian_mt import read_marian_mt

pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")


def test_overrides_and_weights(make_opus: Callable[..., Path], tmp_path: Path) -> None:
    foreign = read_marian_mt(make_opus(tmp_path / "opus"))
    converted = convert(foreign, tmp_path / "run", ["data.source_language=gsw", "decoding.beam_size=2"])
    assert (converted.config.data.source_language, converted.config.decoding.beam_size) == ("gsw", 2)
    with pytest.raises(InputError, match="model.d_ff=56: .*`model`.* cannot be changed"):
        convert(foreign, tmp_path / "run", ["model.d_ff=56"])
    weights = dict(foreign.weights)
    with pytest.raises(InputError, match="the weights decoder.extra have no place in our model"):
        convert(foreign._replace(weights={**weights, "decoder.extra": weights["lm_head.weight"]}), tmp_path / "run", [])
    cut = weights["model.encoder.layers.1.fc1.weight"][:-1]
    with pytest.raises(InputError, match=r"fc1.weight has the shape \(27, 20\), not \(28, 20\)"):
        convert(foreign._replace(weights={**weights, "model.encoder.layers.1.fc1.weight": cut}), tmp_path / "run", [])
    del weights["model.encoder.layers.1.fc1.weight"]
    with pytest.raises(InputError, match=r"the weight model\.encoder\.layers\.1\.fc1\.weight is missing"):
        convert(foreign._replace(weights=weights), tmp_path / "run", [])


def test_settings_are_refused_by_name() -> None:
    require("a.json", {"depth": 2, "more": 5}, {"depth": (1, 2), "norm": ("x",)})
    with pytest.raises(InputError, match="a.json: a run cannot hold depth = 3 .only 1 or 2., norm = 'y' .only 'x'."):
        require("a.json", {"depth": 3, "norm": "y"}, {"depth": (1, 2), "norm": ("x",)})
