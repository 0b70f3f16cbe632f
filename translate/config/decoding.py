"""The section `decoding`: how a translation is searched for, and what its result must keep to."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from translate.config.section import NotNegativeInt, PositiveInt, Probability, Section


class DecodingConfig(Section):
    """The search for a translation."""

    search: Literal["beam", "sample"] = "beam"
    """beam: the most probable translations; sample: drawn at random from the model's distribution."""
    beam_size: Annotated[int, Field(ge=1, le=1000)] = 5
    """Hypotheses kept for each sentence; 1 is greedy search."""
    n_best: Annotated[int, Field(ge=1, le=1000)] = 1
    """Translations given for each sentence, the best first (of sampling: so many are drawn)."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """Alpha of the length penalty: 0 is none, more favours the longer."""
    length_penalty_kind: Literal["gnmt", "average", "none"] = "gnmt"
    """score = log-probability / penalty; gnmt: ((5 + length) / 6)^alpha (Wu et al. 2016); average: length^alpha."""
    coverage_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    """Beta of Wu et al. 2016: score + beta · sum over source tokens of log(min(attention received, 1)); 0: none."""
    max_length_factor: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """A translation has at most factor · source tokens + constant tokens; one cut there is counted and said."""
    max_length_constant: Annotated[int, Field(ge=1, le=10_000)] = 20
    """See max_length_factor."""
    min_length_factor: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """A translation has at least factor · source tokens + constant tokens before its end."""
    min_length_constant: Annotated[int, Field(ge=0, le=10_000)] = 0
    """See min_length_factor."""
    long: Literal["error", "truncate", "split"] = "split"
    """A source above max_source_tokens: is an error, is cut there, or is translated in pieces; counted and said."""
    max_source_tokens: PositiveInt | None = None
    """Most subwords of a source; null: data.max_source_tokens; learned positions allow model.max_positions - 1."""
    max_target_tokens: PositiveInt | None = None
    """Scoring: the same for given translations, which are cut where long = split; null: data.max_target_tokens."""
    diversity_groups: PositiveInt = 1
    """Groups that the beam is divided into, each kept away from what earlier ones chose (Vijayakumar et al. 2018)."""
    diversity_strength: Annotated[float, Field(ge=0.0, le=100.0)] = 0.5
    """Nats that a token costs for each earlier group that chose it at the same step."""
    temperature: Annotated[float, Field(gt=0.0, le=100.0)] = 1.0
    """Sampling: log-probabilities are divided by it; towards 0 the most probable token is always drawn."""
    top_k: NotNegativeInt = 0
    """Sampling: only from the k most probable tokens; 0: from all."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Sampling: only from the smallest set of tokens with this probability together (Holtzman et al. 2020)."""
    epsilon: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Sampling: never a token less probable than this (Hewitt et al. 2022)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Sampling: with the line's number it settles what is drawn, whatever the batch."""
    mbr: Literal["none", "chrf", "bleu"] = "none"
    """Minimum Bayes risk: of mbr_candidates translations the one most like all others by this metric."""
    mbr_candidates: PositiveInt = 32
    """Samples drawn, or of the beam's hypotheses as many as it has, for mbr."""
    no_repeat_ngram: NotNegativeInt = 0
    """No n tokens in a row twice in one translation (Paulus et al. 2017); 0: no such rule."""
    repetition_penalty: Annotated[float, Field(ge=1.0, le=10.0)] = 1.0
    """The log-probability of a token that occurred before is multiplied by it (Keskar et al. 2019); 1: none."""
    contrastive_weight: Annotated[float, Field(ge=0.0, le=10.0)] = 0.5
    """With --contrast RUN: how much of its log-probabilities is taken away (Li et al. 2023)."""
    contrastive_plausibility: Probability = 0.1
    """With --contrast RUN: only tokens at least so probable, in proportion to the most probable one."""
    alignment_layer: int = -1
    """Decoder layer whose cross-attention, the mean over its heads, gives alignments and coverage; -1: the last."""
    batch_tokens: PositiveInt = 8192
    """Source tokens decoded at once by a worker, padding counted, times the beam size."""
    look_ahead_lines: PositiveInt = 2000
    """Lines read ahead and sorted by length, so that a batch's sentences are alike; the output keeps the order."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """fp32; bf16 throughout; or int8 weights and activations in the matrix products (CPU)."""
    shortlist: bool = False
    """Only words that the run's shortlist (`translate shortlist`) gives for the source; scores are among those."""
    workers: PositiveInt | None = None
    """CPU threads that each search their own sentences; null: as many as torch has threads, if there is work."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.beam_size % self.diversity_groups:
            raise ValueError(
                f"decoding.diversity_groups = {self.diversity_groups} must divide decoding.beam_size = {self.beam_size}"
            )
        if self.search == "beam" and self.mbr == "none" and self.n_best > self.beam_size:
            raise ValueError(
                f"decoding.n_best = {self.n_best} is more than decoding.beam_size = {self.beam_size} hypotheses"
            )
        if self.mbr != "none" and self.n_best > 1:
            raise ValueError(f"decoding.n_best = {self.n_best} must be 1 with decoding.mbr = '{self.mbr}'")
        return self
