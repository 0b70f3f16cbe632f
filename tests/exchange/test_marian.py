"""Marian's own files: CTranslate2's reader, an independent program, gives the same numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import yaml
from harness import import_

from translate.decoding.counterparts import COUNTERPARTS
from translate.decoding.loading import load_own_translator
from translate.errors import InputError
from translate.model import device
from translate.model.device import OutOfMemory
from translate.runs.run import open_run

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

WriteMarian = Callable[..., Path]


@pytest.fixture
def write_marian(spms: tuple[bytes, bytes], tmp_path: Path) -> WriteMarian:
    """Writes the files of an OPUS-MT archive, with random weights."""

    def write(
        *, tying: str = "all", spm_vocabulary: bool = False, leave_out: str = "", damage: Any = None, **settings: Any
    ) -> Path:
        folder = tmp_path / "opus"
        folder.mkdir(exist_ok=True)
        processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in spms]
        pieces = {each.id_to_piece(token) for each in processors for token in range(2, each.get_piece_size())}
        vocabulary = ["</s>", "<unk>", *sorted(pieces), '"', "\\", ": "]
        (folder / "opus.vocab.yml").write_text(
            "".join(f"{json.dumps(piece, ensure_ascii=False)}: {token}\n" for token, piece in enumerate(vocabulary))
        )
        for name, model in zip(("source.spm", "target.spm"), spms, strict=True):
            (folder / name).write_bytes(model)
        size = processors[0].get_piece_size() if spm_vocabulary else len(vocabulary)
        vocabs = "source.spm" if spm_vocabulary else [r"C:\gone\opus.vocab.yml"] * 2
        decoder = {"models": ["/gone/opus.npz"], "vocabs": vocabs, "beam-size": 6, "normalize": 1}
        (folder / "decoder.yml").write_text(yaml.safe_dump(decoder | {"max-length-factor": 2}))
        random = np.random.default_rng(5)

        def draw(*shape: int) -> Any:
            return (0.3 * random.standard_normal(shape)).astype(np.float32)

        d_model, d_ff = 20, 28
        arrays = {"decoder_ff_logit_out_b": draw(1, size)}
        if tying == "all":
            arrays["Wemb"] = draw(size, d_model)
        else:
            arrays |= {"encoder_Wemb": draw(size, d_model), "decoder_Wemb": draw(size, d_model)}
        if tying == "none":
            arrays["decoder_ff_logit_out_W"] = draw(d_model, size)
        for stack, depth, parts in (("encoder", 2, ["self"]), ("decoder", 3, ["self", "context"])):
            for layer in range(1, depth + 1):
                at = f"{stack}_l{layer}"
                for letters in [f"{part}_{{}}{letter}" for part in parts for letter in "qkvo"]:
                    name = f"{at}_{letters}"
                    arrays |= {name.format("W"): draw(d_model, d_model), name.format("b"): draw(1, d_model)}
                arrays |= {f"{at}_ffn_W1": draw(d_model, d_ff), f"{at}_ffn_b1": draw(1, d_ff)}
                arrays |= {f"{at}_ffn_W2": draw(d_ff, d_model), f"{at}_ffn_b2": draw(1, d_model)}
                for norm in ["ffn_ffn", *(f"{part}_Wo" for part in parts)]:
                    arrays |= {f"{at}_{norm}_ln_scale": 1 + draw(1, d_model), f"{at}_{norm}_ln_bias": draw(1, d_model)}
        values = {
            "type": "transformer", "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
            "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
            "transformer-guided-alignment-layer": "last", "transformer-ffn-activation": "swish", "enc-depth": 2,
            "dec-depth": 3, "transformer-heads": 4, "transformer-dim-ffn": d_ff, "dim-emb": d_model,
            "right-left": False, **settings,
        }  # fmt: skip
        text = yaml.safe_dump(values).encode() + b"\0"
        arrays["special:model.yml"] = np.frombuffer(text, dtype=np.int8)
        arrays.pop(leave_out, None)
        np.savez(folder / "opus.npz", **arrays)
        if damage:
            (folder / damage[0]).write_bytes(damage[1])
        return folder

    return write


SETTINGS: dict[str, Callable[[str], dict[str, Any]]] = {  # of a model with a choice, which is known there or not
    "activation": lambda name: {"transformer-ffn-activation": name},
    "norm": lambda name: {"transformer-preprocess": "n" if name == "pre" else ""},
    "positions": lambda name: {"transformer-train-position-embeddings": name != "sinusoidal"},
    "tie_embeddings": lambda name: {"tying": name},
}
CHOICES = [(key, value) for key in SETTINGS for value in COUNTERPARTS[key] if value != "inputs"]  # no file can say that
FIXED = {
    "norm_kind": "layer",
    "bias": True,
    "scale_embeddings": True,
    "embedding_norm": False,
}  # no setting there has another choice


def test_every_key_has_a_setting_or_one_choice() -> None:
    assert COUNTERPARTS.keys() == SETTINGS.keys() | FIXED.keys()
    for key, choice in FIXED.items():
        assert [value for value, row in COUNTERPARTS[key].items() if row.marian is not None] == [choice]


@pytest.mark.parametrize(("key", "value"), CHOICES)
def test_every_choice_is_read_or_refused(write_marian: WriteMarian, tmp_path: Path, key: str, value: str) -> None:
    settings = SETTINGS[key](value)
    folder = write_marian(**settings)
    if COUNTERPARTS[key][value].marian is not None:
        assert getattr(import_(folder, tmp_path / "run").config.model, key) == value  # compares the numbers too
        return
    [(name, refused)] = settings.items()
    with pytest.raises(InputError, match=f"{name} = {refused!r}"):
        import_(folder, tmp_path / "run")


@pytest.mark.parametrize("options", [{}, {"spm_vocabulary": True, "leave_out": "decoder_ff_logit_out_b"}], ids=str)
def test_layouts(write_marian: WriteMarian, german: list[str], tmp_path: Path, options: dict[str, Any]) -> None:
    folder = write_marian(**options)
    languages = ["data.source_language=de", "data.target_language=en"]
    import_(folder, tmp_path / "run", *languages)  # compares the numbers
    loaded = open_run(tmp_path / "run").load_model()
    search = loaded.config.decoding
    assert (search.beam_size, search.length_penalty, search.length_penalty_kind) == (6, 1.0, "average")
    assert (search.max_length_factor, loaded.config.data.source_language) == (2.0, "de")
    assert loaded.config.model.norm_epsilon == 1e-6
    translator = load_own_translator(tmp_path / "run", options={"device": "cpu", "beam_size": 1}).translator
    assert len([*translator.translate(german[:3])]) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "s2s"}, "a run cannot represent type = 's2s' (only 'transformer')"),
        ({"leave_out": "decoder_l2_context_Wk"}, "the weight decoder_l2_context_Wk is missing"),
        ({"leave_out": "Wemb"}, "is damaged, or not a model that can be imported (KeyError: 'decoder_Wemb'"),
        ({"enc-depth": 1}, "the weights encoder_l2_ffn_W1, "),
        ({"leave_out": "special:model.yml"}, "not a model that can be imported (KeyError: 'special:model.yml'"),
        ({"damage": ("opus.npz", b"PK")}, "opus.npz: is damaged, or not a model"),
        ({"damage": ("source.spm", b"\xff")}, "source.spm: is not a SentencePiece model (1 bytes)"),
        ({"damage": ("decoder.yml", b"models: [a.npz, b.npz]\nvocabs: []")}, "decoder.yml: names 2 models"),
        ({"damage": ("decoder.yml", b"models: a.npz\nvocabs: [b.yml]")}, "a.npz: no such file"),
        ({"damage": ("decoder.yml", b"vocabs: [")}, "decoder.yml:1: not valid YAML"),
        ({"damage": ("decoder.yml", b"models: 5")}, ": is damaged, or not a model that can be imported ("),
        ({"damage": ("opus.vocab.yml", b"{}")}, "is damaged, or not a model"),
    ],
    ids=str,
)
def test_refusals(write_marian: WriteMarian, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        import_(write_marian(**options), tmp_path / "run")
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_its_vocabulary_cannot_be_pruned(write_marian: WriteMarian, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^--keep-languages, --text: .*Marian's own files"):
        import_(write_marian(), tmp_path / "run", keep_languages=["de"])
    assert not (tmp_path / "run").exists()


def test_a_model_that_does_not_fit(
    write_marian: WriteMarian, make_opus: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = (write_marian(), make_opus(tmp_path / "other"))
    monkeypatch.setattr(device, "free_memory", lambda: 1000)
    for folder in folders:
        with pytest.raises(OutOfMemory, match=f"loading {folder}.* of memory, and 0 MiB are free"):
            import_(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
