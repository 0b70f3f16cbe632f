"""How sections are shown in a program: by what is special about them."""

from translate.config.data import TsvCorpus
from translate.config.schema import Config, ModelConfig


def test_a_section_shows_what_differs_from_its_defaults() -> None:
    assert repr(ModelConfig()) == "ModelConfig()"
    model = ModelConfig(d_model=64, norm="pre")
    assert repr(model) == "ModelConfig(d_model=64, norm='pre')"
    assert repr(TsvCorpus.model_validate({"path": "a.tsv", "weight": 1.0})) == "TsvCorpus(path=PosixPath('a.tsv'))"
    config = Config(name="mine", model=model)
    assert repr(config) == "<Config mine, de → en: ModelConfig(d_model=64, norm='pre')>"
    assert str(config) == "name='mine' model=ModelConfig(d_model=64, norm='pre')"
