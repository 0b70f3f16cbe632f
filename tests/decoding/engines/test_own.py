"""What only our own search does: workers, length limits, forbidden words, and what is said when it cannot go on."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from harness import MakeTranslator, Toy, random_model

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import EOS_ID
from translate.decoding import Request, Translator
from translate.decoding.engines import own
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.loop import BeamSearch
from translate.errors import InputError, RunError

REFUSAL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of …")


def test_length_limit_by_hand(toy: Toy) -> None:
    """factor · source tokens + constant, its end symbol counted; reached exactly by a model that never ends."""
    model = random_model(toy.tokenizers, output_bias=True).eval()
    with torch.no_grad():
        model.output.bias[EOS_ID] = -1e4
    config = DecodingConfig(beam_size=2, max_length_factor=1.5, max_length_constant=3)
    for translation in Translator(model, toy.tokenizers, config).translate(toy.sources[:7]):
        num_source = len(toy.tokenizers.source.encode(translation.source)) + 1
        assert translation.truncated and len(translation.ids) == int(1.5 * num_source) + 3


def test_a_prefix_is_kept_whatever_the_limit(toy: Toy, translator: MakeTranslator) -> None:
    """The maximum length counts what follows it; only positions that the model does not have are an error."""
    prefix = "the green dog runs"
    ids = toy.tokenizers.target.encode(prefix)
    found = translator(max_length_factor=0.0, max_length_constant=2).translate(Request("Hund", prefix=prefix))
    assert found.ids[: len(ids)] == ids and len(found.ids) <= len(ids) + 2
    model = random_model(toy.tokenizers, positions="learned", max_positions=len(ids)).eval()
    with pytest.raises(InputError, match=f"^line 2: the prefix has {len(ids)} tokens, .* for {len(ids) - 1}: shorten"):
        Translator(model, toy.tokenizers, DecodingConfig()).translate(["Hund", Request("Hund", prefix=prefix)])


def test_a_tag_of_two_tokens_is_refused(toy: Toy) -> None:
    """As runs of earlier versions may have; the rows of the batch would begin with tokens of other sentences."""
    inputs = [SearchInput(line, 0, "Hund", [5], False, start_ids=(6, 7)) for line in range(2)]
    engine = OwnEngine(toy.model, toy.tokenizers.target)
    with pytest.raises(RunError, match="tag of a target language has several tokens"):
        engine.search(SearchJob(inputs, DecodingConfig(), on_found=print))


def test_forbidden_words_are_not_there(toy: Toy, translator: MakeTranslator) -> None:
    """Not with other options of a call either; nor one that is required, which is then unmet."""
    lines = [source for source in toy.sources if "Hund" in source][:7]
    free = translator(beam_size=4)
    assert sum("dog" in each.text.split() for each in free.translate(lines)) > 3
    without = Translator(OwnEngine(toy.model, toy.tokenizers.target, forbidden=["dog"]), toy.tokenizers, free.config)
    for options in ({}, {"beam_size": 2}):
        assert not any("dog" in each.text.split() for each in without.translate(lines, **options))
    found = without.translate(Request("Hund", required=("dog",)))
    assert found.unmet == ("dog",) and "dog" not in found.text.split()
    with pytest.raises(RunError, match="^line 2: .* the constraints forbid every word"):
        without.translate(["Haus", Request("Hund", prefix="dog runs")])


def test_a_search_runs_torch_with_one_thread_and_returns_its_memory(
    translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several would wait for each other after each product, for seconds in a line on a busy machine."""

    def tell_threads(search: Any, order: Sequence[int], **_: object) -> Iterator[tuple[int, list[Hypothesis]]]:
        yield (order[0], [Hypothesis([], [], float(torch.get_num_threads()), truncated=False)])

    monkeypatch.setattr(BeamSearch, "run", tell_threads)
    done = list[str]()
    monkeypatch.setattr(own, "configure_memory", lambda: done.append("keep"))
    monkeypatch.setattr(own, "release_free_memory", lambda: done.append("return"))
    torch.set_num_threads(3)
    assert translator(beam_size=1).translate("Hund", align=False).score == 1.0
    assert torch.get_num_threads() == 3 and done == ["keep", "return"]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_worker_that_fails_stops_the_others(
    translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """One fails at once; the other, left alone, would go on for ever."""

    def fail_or_go_on(
        search: Any, order: Sequence[int], *, is_stopped: Callable[[], bool], on_step: Any
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        if failing in order:
            raise RuntimeError("a worker fails")
        while not is_stopped():
            time.sleep(0.01)
        yield from ()

    monkeypatch.setattr(BeamSearch, "run", fail_or_go_on)
    num_threads = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="a worker fails"):
        translator(beam_size=1, workers=2).translate(["Hund"] * 1000)
    assert torch.get_num_threads() == num_threads


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_not_a_number_is_an_error_and_never_a_translation(toy: Toy, workers: int) -> None:
    """Weights that are broken throughout; and a single number of them, which one line alone meets."""
    message = r"^line \d+: the model gives no probability to any word: its weights are not finite, or the constraints"
    broken, once = copy.deepcopy(toy.model), copy.deepcopy(toy.model)
    once.encoder.embedder.tokens = copy.deepcopy(once.encoder.embedder.tokens)  # not the target's, if they are tied
    (token,) = toy.tokenizers.source.parse(["<0x7E>"])
    with torch.no_grad():
        broken.decoder.layers[0].feed_forward.outer.bias.fill_(torch.nan)
        once.encoder.embedder.tokens.weight[token, 5] = torch.nan
    config = DecodingConfig(beam_size=3, workers=workers)
    with pytest.raises(RunError, match=message):
        Translator(broken, toy.tokenizers, config).translate(toy.sources[:17])
    fine = Translator(once, toy.tokenizers, config)
    assert all(each.text for each in fine.translate(toy.sources[:17]))
    with pytest.raises(RunError, match=message):
        fine.translate([*toy.sources[:17], "Hund ~"])


def refuse(*arguments: object, **options: object) -> Any:
    raise REFUSAL


@pytest.mark.parametrize("workers", [1, 2])
def test_without_memory_the_error_names_the_sizes(
    toy: Toy, translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(BeamSearch, "run", refuse)
    monkeypatch.setattr("translate.decoding.alignment.collate", refuse)
    small = translator(batch_tokens=99, beam_size=3, workers=workers)
    with pytest.raises(RunError, match=r"17 texts.*batch_tokens \(now 99\).*beam_size \(now 3\).*max_source_tokens"):
        small.translate(toy.sources[:17])
    with pytest.raises(RunError, match=r"1 pairs of up to 10 tokens.*batch_tokens \(now 99\).*max_target_tokens"):
        small.score([""], [[5] * 9])
