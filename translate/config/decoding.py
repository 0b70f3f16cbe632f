"""The section `decoding`: how to search for translations.

The command line turns each field into an option, from the text of this file (see `translate.cli.terminal.options`).
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from translate.config.section import Device, NotNegativeInt, PositiveInt, Section


class DecodingConfig(Section):
    """The search for a translation."""

    search: Literal["beam", "sample"] = "beam"
    """beam searches for the most probable translations; sample draws random ones from the model's distribution."""
    beam_size: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of hypotheses kept per sentence; 1 is greedy search."""
    patience: Annotated[int, Field(ge=0, le=1000)] = 2
    """Beam search ends when patience * beam_size hypotheses have finished (Kasai et al. 2022) or no open one can win. 0
    is transformers' rule: beam_size have finished, and no open one would be among them at its present length."""
    n_best: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of translations per sentence, best first: distinct texts, fewer if the beam has fewer. Sampling draws this
    many, and a text that is drawn twice appears twice."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """Alpha of the length penalty: 0 turns it off; larger values favour longer translations."""
    length_penalty_kind: Literal["gnmt", "average", "none"] = "gnmt"
    """score = log-probability / penalty; gnmt: ((5 + length) / 6)^alpha (Wu et al. 2016); average: length^alpha."""
    max_length_factor: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """A translation has at most factor * source tokens + constant tokens after its prefix; translations that are cut
    off are counted and reported."""
    max_length_constant: Annotated[int, Field(ge=1, le=10_000)] = 20
    """The constant of the maximum length."""
    min_length_factor: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """A translation has at least factor * source tokens + constant tokens, which raises a lower maximum length."""
    min_length_constant: Annotated[int, Field(ge=0, le=10_000)] = 0
    """The constant of the minimum length."""
    long: Literal["error", "truncate", "split"] = "split"
    """A source of more than max_source_tokens tokens is an error, is truncated, or is translated in pieces. With split,
    `score` truncates instead. Lines that are truncated or split are counted and reported."""
    split_sentences: Literal["auto", "always", "never"] = "auto"
    """Whether each sentence of a source is translated alone, because a model that has learnt only single sentences
    leaves out the others. auto: if fewer than 10 % of the training sources had several, or if their number is
    unknown, as for an imported model. A source with required phrases or a prefix of several sentences stays whole.
    Split lines are counted."""
    max_source_tokens: PositiveInt | None = None
    """Maximum number of source subwords; null: data.max_source_tokens. Learned positions allow model.max_positions
    - 1."""
    max_target_tokens: PositiveInt | None = None
    """Maximum number of subwords in a translation given to `score`; null: data.max_target_tokens."""
    temperature: Annotated[float, Field(gt=0.0, le=100.0)] = 1.0
    """Sampling divides log-probabilities by this; near 0 it always draws the most probable token."""
    top_k: NotNegativeInt = 0
    """Sampling draws from the k most probable tokens; 0 allows all."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Sampling draws from the smallest set of tokens with this total probability (Holtzman et al. 2020)."""
    epsilon: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Sampling never draws a token with a lower probability than this (Hewitt et al. 2022)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Sampling depends on this seed and on the line number. The batch affects rounding, which changes up to one line in
    a hundred in fp32, and most lines in bf16."""
    keep_placeholders: Literal["prefer", "off"] = "prefer"
    """prefer: choose the best translation of the beam, or of the candidates of mbr, that has the same placeholders,
    tags, addresses and emoji as its source. If a beam has none, a second search requires them. Other lines are not
    affected."""
    mbr: Literal["none", "chrf"] = "none"
    """chrf: minimum Bayes risk, which chooses the translation among mbr_candidates that is most similar to the others
    by chrF (Eikema and Aziz 2020)."""
    mbr_candidates: Annotated[int, Field(ge=1, le=2000)] = 32
    """Number of samples for mbr; with beam search, at most this many of the beam's hypotheses."""
    reverse_weight: Annotated[float, Field(ge=0.0, le=10.0)] = 0.1
    """With --reverse RUN, this weight times that run's log-probability of the source is added to a hypothesis's
    log-probability, before the length penalty (Yee et al. 2019)."""
    no_repeat_ngram: NotNegativeInt = 0
    """No sequence of n tokens occurs twice in one translation (Paulus et al. 2017); 0 turns this off."""
    repetition_penalty: Annotated[float, Field(ge=1.0, le=10.0)] = 1.0
    """Multiplies the log-probability of a token that has occurred before (Keskar et al. 2019); 1 turns it off."""
    forbidden_ids: tuple[Annotated[tuple[NotNegativeInt, ...], Field(min_length=1)], ...] = ()
    """Sequences of subwords that no translation contains, as ids of the target vocabulary, such as [[17], [5, 9]]."""
    alignment_layer: Annotated[int, Field(ge=-1000, lt=1000)] = -1
    """Decoder layer, counted from 0, whose mean cross-attention gives alignments; -1 is the last."""
    batch_tokens: Annotated[int, Field(ge=1, le=100_000_000)] = 8192
    """Source tokens that a worker decodes at once, including padding, times the beam size."""
    look_ahead_lines: Annotated[int, Field(ge=1, le=10_000_000)] = 2000
    """Number of lines to read ahead and sort by length, for even batches; the output keeps the order of the input."""
    engine: Literal["auto", "translate", "ctranslate2"] = "auto"
    """Decoding backend: auto is CTranslate2 on a CPU, if it is installed and gives the same translations, and otherwise
    translate's own search. With precision = int8, auto is always CTranslate2."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """fp32; bf16 throughout; or CTranslate2's int8 in the matrix products, nearly twice as fast as its fp32 for at most
    0.1 BLEU on Multi30k. auto is fp32 with CTranslate2 and for sampling, and otherwise the faster of fp32 and bf16.
    Validations during training compute int8 in fp32."""
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of CPU threads, each of which searches its own sentences; null: as many as torch has threads."""
    device: Device = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:N, xpu or mps."""

    @property
    def ranks_a_beam(self) -> bool:
        """Whether the result is the beam's best scores, without sampling or minimum Bayes risk."""
        return self.search == "beam" and self.mbr == "none"

    @property
    def brief(self) -> str:
        """The search in two words: `beam 5`, or `sampled`."""
        return f"beam {self.beam_size}" if self.search == "beam" else "sampled"

    @model_validator(mode="after")
    def _check_settings_agree(self) -> Self:
        if self.ranks_a_beam and self.n_best > self.beam_size:
            raise ValueError(f"decoding.n_best = {self.n_best} is more than decoding.beam_size = {self.beam_size}")
        if self.mbr != "none" and self.n_best > 1:
            raise ValueError(f"decoding.n_best = {self.n_best} must be 1 with decoding.mbr = '{self.mbr}'")
        return self
