"""A corpus larger than memory can be trained on: what a training holds grows by some bytes a pair, not by its text."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from translate.config.schema import Config
from translate.data import corpora, text, token_store
from translate.training import preparation


def write_corpus(folder: Path, num_pairs: int) -> None:
    """Sentences of 8 to 25 words, drawn by Zipf's law from 30,000 of each language; words translate one by one."""
    generator = np.random.default_rng(7)
    spelt = generator.choice(list("eeeeennniiirrssaattdhulcgmobwfkzvp"), size=(2, 30_000, 6))
    languages = [["".join(letters) for letters in words] for words in spelt]
    frequencies = np.cumsum(1 / (np.arange(30_000) + 2.7))
    folder.mkdir()
    with (folder / "train.de").open("w") as sources, (folder / "train.en").open("w") as targets:
        for length in generator.integers(8, 26, size=num_pairs).tolist():
            words = np.searchsorted(frequencies, generator.random(length) * frequencies[-1]).tolist()
            for file, language in ((sources, languages[0]), (targets, languages[1])):
                file.write(" ".join(language[word] for word in words) + "\n")


def prepared_bytes(folder: Path) -> int:
    """The most that Python and numpy held while a corpus was made ready for training, and two epochs planned."""
    config = Config.model_validate(
        {
            "data": {"train": [{"kind": "text", "source": folder / "train.de", "target": folder / "train.en"}]},
            "tokenizer": {"vocab_size": 1000, "max_training_lines": 500},
        }
    )
    tracemalloc.start()
    read = preparation.read_corpora(config)
    tokenizers = preparation.make_tokenizers(config, read)
    batches = preparation.make_batches(config, read, tokenizers)
    corpora.data_fingerprint(read.train, tokenizers)
    for number in range(2):
        epoch = batches.epoch(number)
        assert len(epoch[0].indices) and epoch.padding.share < 0.2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_preparing_a_corpus_does_not_hold_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.data.cache.cache_folder", lambda: tmp_path / "cache")
    for module in (corpora, token_store):
        monkeypatch.setattr(module, "MAX_BYTES_IN_MEMORY", 0)
    for module, name in ((text, "_CHUNK_LINES"), (token_store, "_THREAD_LINES")):
        monkeypatch.setattr(module, name, 200)
    monkeypatch.setattr(corpora, "_DIGEST_LINES", 200)
    peaks = []
    for num_pairs in (1000, 1000, 7000):  # the first time, libraries are loaded as well
        write_corpus(tmp_path / str(len(peaks)), num_pairs)
        peaks.append(prepared_bytes(tmp_path / str(len(peaks))))
    assert (peaks[2] - peaks[1]) / 6000 < 100  # bytes a pair; measured 22, and 595 with text and ids in memory
