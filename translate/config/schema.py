"""The sections `tokenizer`, `model`, `training` and `evaluation`, and the whole `Config`: meanings, defaults, bounds.

Sections are frozen data and do not know the classes that they configure. The docstring under a field is its
documentation, from which docs/config.md and the help of options are generated.
"""

import os
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from translate.config.data import DataConfig, LanguageCode
from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.config.section import Device, InputPath, NotNegativeInt, PositiveInt, Probability, Section, expecting

_MAX_LENGTH_CONSTANT = 10  # of validations: tokens of a translation beyond those that its source's length allows
Minutes = Annotated[
    Annotated[float, Field(gt=0.0, le=1_000_000)] | None,
    expecting("should be above 0, and at most 1000000; null: never"),
]
BleuTokenizer = Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "none"]
NEWER_MODEL_KEYS = {"head_dim", "norm_kind", "bias", "embedding_norm"}
"""Keys of `model` that earlier versions did not have. With their defaults a model is one of those versions."""
_FREEZE = r"^(embeddings|(encoder|decoder)(\.[0-9]{1,4}(-[0-9]{1,4})?)?)$"
_LoraTarget = Literal["query", "key", "value", "output", "feed_forward", "embeddings"]


class TokenizerConfig(Section):
    """The SentencePiece tokenizer: trained on the training corpora, or given as a file."""

    type: Literal["unigram", "bpe"] = "bpe"
    """Segmentation model: unigram (Kudo 2018) or bpe (Sennrich et al. 2016)."""
    vocabulary: Literal["joint", "separate"] = "joint"
    """One vocabulary for both languages, or one per language."""
    vocab_size: Annotated[int, Field(ge=8, le=1_000_000)] = 8000
    """Number of subwords per vocabulary, including special symbols and bytes."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0
    """Share of the training text's characters that get their own subword; the rest are spelt in bytes."""
    byte_fallback: bool = True
    """Spell unknown characters in UTF-8 bytes, so nothing is unknown; this takes 256 entries of the vocabulary."""
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    """Unicode normalisation before segmentation, and thus of translations: with nmt_nfkc a model writes ... for … and
    m2 for m². `_cf` also folds case. identity changes no character but spaces: repeated and outer ones are removed, and
    ▁ is a space."""
    subword_sampling: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Segment again in every epoch, with unigram's alpha (0.1 to 0.5) or BPE's dropout (0.1); null segments once."""
    max_training_lines: PositiveInt = 1_000_000
    """Train the tokenizer on at most this many lines per language, evenly spaced over the corpus."""
    add_characters: bool = False
    """In fine-tuning, add an entry for each character of the training text that the run's vocabulary cannot spell or
    spells in bytes, as far as character_coverage requires. All other entries and their embeddings stay."""
    add_pieces: tuple[Annotated[str, Field(pattern=r"^[^\s▁]{1,100}$")], ...] = ()
    """Text that is one subword wherever it occurs, such as `<medical>`. `<placeholders>` stands for the usual ones of
    programs, such as `%s`, `%1$d`, `%1`, `{0}` and `<b>`. A tokenizer trained here has them within its vocab_size;
    a model given as a file, and the run that fine-tuning starts from, get entries for those that they lack."""
    add_languages: dict[LanguageCode, LanguageCode | None] = {}
    """In fine-tuning a multilingual run, add the tags of these languages, such as `{gsw: deu_Latn}`. The embedding of a
    new tag starts as that of a related language of the run, or with null as the mean of all embeddings."""
    source_model: InputPath | None = None
    """A trained SentencePiece model for the source, or for both languages with a joint vocabulary. Its special symbols
    get the ids 0 to 3, wherever they were."""
    target_model: InputPath | None = None
    """A trained SentencePiece model for the target; only for separate vocabularies."""

    @model_validator(mode="after")
    def _check_models_fit_vocabulary(self) -> Self:
        if self.vocabulary == "joint" and self.target_model is not None:
            raise ValueError("tokenizer.target_model needs tokenizer.vocabulary = 'separate'")
        if self.vocabulary == "separate" and (self.source_model is None) != (self.target_model is None):
            raise ValueError("tokenizer.source_model and tokenizer.target_model: give both or neither")
        return self


class ModelConfig(Section):
    """The encoder-decoder Transformer; the defaults are the base model of Vaswani et al. 2017."""

    d_model: Annotated[int, Field(ge=2, le=65536)] = 512
    """Width of the residual stream."""
    num_heads: Annotated[int, Field(ge=1, le=1000)] = 8
    """Number of attention heads; without head_dim it must divide d_model."""
    head_dim: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Width of each head, such as T5's 64, whatever d_model is; null: d_model / num_heads."""
    d_ff: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """Inner width of the feed-forward layer."""
    num_encoder_layers: Annotated[int, Field(ge=1, le=1000)] = 6
    """Number of encoder layers."""
    num_decoder_layers: Annotated[int, Field(ge=1, le=1000)] = 6
    """Number of decoder layers."""
    dropout: Probability = 0.1
    """Dropout on the output of each sub-layer and on the sum of embeddings and positions."""
    attention_dropout: Probability = 0.0
    """Dropout on the attention weights."""
    activation_dropout: Probability = 0.0
    """Dropout inside the feed-forward layer, after the activation."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each residual sum (the paper) or before each sub-layer (Xiong et al. 2020)."""
    norm_kind: Literal["layer", "rms"] = "layer"
    """Layer normalisation (Ba et al. 2016), or RMSNorm (Zhang and Sennrich 2019), which subtracts no mean and has no
    bias, as in T5."""
    norm_epsilon: Annotated[float, Field(ge=1e-30, le=0.1)] = 1e-5
    """Added to the variance in layer normalisation, or to the mean square in RMSNorm."""
    bias: bool = True
    """Biases in attention, feed-forward layers and layer normalisation. T5 has none. Without them an output_bias is not
    trained either."""
    positions: Literal["sinusoidal", "fairseq", "learned", "rotary", "relative"] = "sinusoidal"
    """Sinusoids, fairseq's sinusoids (as in M2M100 and NLLB-200), a learned table, rotary embeddings (Su et al. 2021)
    or T5's relative bias (Raffel et al. 2020)."""
    max_positions: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Number of learned positions, and thus a hard limit on the length of sequences; other positions have no limit."""
    relative_buckets: Annotated[int, Field(ge=4, le=65536)] = 32
    """Number of distance buckets in the relative bias."""
    relative_max_distance: Annotated[int, Field(ge=2, le=1_000_000)] = 128
    """Distances of this many tokens or more share the last bucket of the relative bias."""
    activation: Literal["relu", "gelu", "swish", "swiglu", "geglu"] = "relu"
    """Activation of the feed-forward layer; swish (Ramachandran et al. 2017) is Marian's. swiglu and geglu (Shazeer
    2020) have a third matrix; geglu is T5 1.1's, with the tanh approximation of GELU."""
    tie_embeddings: Literal["none", "decoder", "inputs", "all"] = "all"
    """decoder ties the output layer to the target embedding; inputs ties the source embedding to it instead, as in T5
    1.1; all ties all three. Tying the source embedding needs a joint vocabulary."""
    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model), as in the paper."""
    embedding_norm: bool = False
    """Normalise the sum of embeddings and positions too, before the first layer, as BART and mBART do."""
    output_bias: bool = False
    """Add a trained bias to each token's logit, as Marian does."""
    initialization: Literal["paper", "xavier"] = "paper"
    """paper: Xavier for projections and N(0, 1/d_model) for embeddings, as in its code; xavier: Xavier everywhere."""

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward layer has a gate: a third matrix, whose products the activation is applied to."""
        return self.activation in ("swiglu", "geglu")

    @property
    def attention_dim(self) -> int:
        """The width of all heads of attention together."""
        return self.num_heads * self.head_dim if self.head_dim else self.d_model

    @property
    def has_one_embedding(self) -> bool:
        """Whether source and target have the same embeddings."""
        return self.tie_embeddings in ("inputs", "all")

    @property
    def brief(self) -> str:
        """The size of the model in a few words."""
        return f"{self.num_encoder_layers}+{self.num_decoder_layers} layers, d_model {self.d_model}"

    @model_validator(mode="after")
    def _check_shapes(self) -> Self:
        head_dim, remainder = divmod(self.attention_dim, self.num_heads)
        if remainder:
            raise ValueError(f"model.num_heads = {self.num_heads} must divide model.d_model = {self.d_model}")
        if self.positions in ("sinusoidal", "fairseq") and self.d_model % 2:
            raise ValueError(f"model.d_model = {self.d_model} must be even for sinusoidal positions")
        if self.positions == "rotary" and head_dim % 2:
            key = "model.head_dim" if self.head_dim else "model.d_model / model.num_heads"
            raise ValueError(f"{key} = {head_dim} must be even for rotary positions")
        if self.positions == "relative" and self.relative_max_distance <= self.relative_buckets // 2:
            distance = self.relative_max_distance
            raise ValueError(f"model.relative_max_distance = {distance} must exceed half of model.relative_buckets")
        return self


class TrainingConfig(Section):
    """How long and how fast training runs, and when it validates and saves."""

    initialize_from: InputPath | None = None
    """A run to fine-tune: training starts from its weights and tokenizer, and inherits the keys of `model`, `tokenizer`
    and `data` that these determine, and the settings of its search. Step 0 is validated. null starts from random
    weights."""
    initialize_checkpoint: Literal["best", "last"] = "best"
    """Checkpoint of that run to start from. If the checkpoint has averaged weights, they are used."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed for initialisation, dropout, shuffling and subword sampling."""
    max_steps: PositiveInt = 100_000
    """Stop after this many optimizer steps."""
    max_epochs: PositiveInt | None = None
    """Stop after this many epochs, if that comes first; null: no limit."""
    batch_tokens: Annotated[
        Annotated[int, Field(ge=1, le=100_000_000)] | Literal["auto"],
        expecting("should be auto or a whole number from 1 to 100000000"),
    ] = 4096
    """Maximum number of tokens in a batch on each side, including padding. auto takes as many as fit into the memory of
    a GPU, found by doubling before the first step, but at most step_tokens (25,000 as in the paper if that is null);
    elsewhere it takes at most 4096, because larger batches are no faster there. The run's config records the number, so
    a resumed run is exact."""
    accumulate_batches: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of batches whose gradients are accumulated per optimizer step."""
    step_tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Tokens per optimizer step on each side, including padding: the number of batches that comes closest is
    accumulated, so a config trains the same way whatever batch fits the machine. null: accumulate accumulate_batches
    batches."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """Adam (Kingma and Ba 2015), AdamW with decoupled weight decay (Loshchilov and Hutter 2019), or Muon (Jordan et al.
    2024) for the matrices of the layers, with AdamW for all other weights. Muon gains most in short runs."""
    adam_beta1: Probability = 0.9
    """Decay rate of the first moment."""
    adam_beta2: Probability = 0.98
    """Decay rate of the second moment."""
    adam_epsilon: Annotated[float, Field(ge=1e-30, le=1.0)] = 1e-9
    """Added to the root of the second moment."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Weight decay of matrices and tables (embeddings, learned positions, relative biases), but not of biases and
    norms; with adam it is L2 regularisation."""
    schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"] = "noam"
    """Decay after the warm-up: noam and inverse_sqrt fall with 1/sqrt(step), linear and cosine until max_steps. wsd
    (warm-up, stable, decay) stays at the peak and falls only in the last steps."""
    learning_rate: Annotated[float, Field(gt=0.0, le=100.0)] = 1.0
    """Peak learning rate, reached when the warm-up ends. For noam, a factor on d_model^-0.5 * warmup_steps^-0.5."""
    final_learning_rate: Annotated[float, Field(ge=0.0)] = 0.0
    """Learning rate at `max_steps`, for the schedules that end there."""
    decay_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.4
    """Share of the steps after the warm-up in which wsd decays."""
    warmup_steps: NotNegativeInt = 4000
    """Number of steps over which the learning rate rises linearly from 0."""
    label_smoothing: Probability = 0.1
    """Probability mass moved from the target to the whole vocabulary."""
    r_drop: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    """Alpha of R-Drop (Wu et al. 2021), 5 in the paper: each pair is computed twice, with different dropout masks, and
    the loss pulls the two predictions together. A step takes twice the time and memory; 0 turns it off."""
    max_gradient_norm: Annotated[float, Field(gt=0.0)] | None = None
    """Gradients with a larger norm are scaled down to this norm; null: no clipping."""
    ema_decay: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Decay of an exponential moving average of the weights, which is then validated and saved; null: no average."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Precision of matrix products; weights and optimizer stay in fp32. auto is the faster of fp32 and bf16."""
    tf32: bool = True
    """On CUDA, round the inputs of fp32 products to a mantissa of 10 bits: far faster, and just as good for
    training."""
    deterministic: bool = True
    """On a GPU, use only deterministic kernels, so a resumed run is exact; false is somewhat faster. If a kernel is
    missing, a warning names the operation, and training continues as with false."""
    batch_layout: Literal["auto", "padded", "packed"] = "auto"
    """packed computes no padding; auto is packed on CUDA if variable-length flash attention works, otherwise padded."""
    compile: bool = False
    """Compile the layers with torch.compile, for long runs on GPUs; on a CPU it made steps slower. If torch cannot
    compile, a warning says why, and training continues without it."""
    freeze: tuple[Annotated[str, Field(pattern=_FREEZE)], ...] = ()
    """Parts whose weights are frozen: embeddings (of both languages, with their norm, learned positions, relative
    biases and a tied output layer), encoder, decoder, or some of their layers, counted from 0, such as encoder.0 or
    decoder.2-5."""
    frozen_precision: Literal["fp32", "bf16"] = "fp32"
    """Type of the weights of frozen layers, in memory and in checkpoints; with LoRA all layers are frozen. bf16 halves
    their memory, except during validations, and needs frozen layers, training.precision = bf16 and a single process. It
    rounds the weights of a base run, unless they are in bf16 already (`translate import --precision bf16`)."""
    lora_rank: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Rank of LoRA (Hu et al. 2021): all weights are frozen, and low-rank updates of some are trained, except in layers
    named by `freeze`. Saved weights include the updates. 0 trains the weights themselves."""
    lora_alpha: Annotated[float, Field(gt=0.0)] = 16.0
    """LoRA's updates are multiplied by lora_alpha / lora_rank."""
    lora_targets: tuple[_LoraTarget, ...] = ("query", "value")
    """The matrices to update: the query, key, value or output projection of attention, or the feed-forward layers. The
    token embeddings, and an output layer that is not tied to them, are not updated but trained themselves."""
    lora_dropout: Probability = 0.0
    """Dropout on the input of the updates."""
    device: Device = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:N, xpu or mps."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of CPU threads; null leaves it to torch, or gives each process of torchrun an equal share."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With several processes, ddp keeps all weights in each; fsdp shards them, their gradients and the optimizer's
    state, for models too large to be trained on one device. A validation still needs all weights on each device."""
    validate_every: PositiveInt = 1000
    """Number of steps between validations."""
    validation_beam_size: Annotated[int, Field(ge=1, le=1000)] = 1
    """Beam size of validations during training; 1 is greedy search. Whatever `decoding` says, validations search for
    one translation of at most decoding.max_length_factor * source tokens + 10 tokens, or decoding.max_length_constant
    if that is less. At the end the best checkpoint is also evaluated with the settings of `decoding`."""
    save_every: PositiveInt = 1000
    """Number of steps between checkpoints to resume from; one is also written at every validation and at the end."""
    save_every_minutes: Minutes = 10.0
    """Also write such a checkpoint this many minutes after the last one; where that takes long, at most a twentieth of
    the time. null: only after numbers of steps."""
    log_every: PositiveInt = 100
    """Number of steps between log entries."""
    log_every_minutes: Minutes = 5.0
    """Where no bar is shown, also log the loss so far this many minutes after the last line: after the first step, then
    at first ten times as often. These lines are in no other record. null: only after numbers of steps."""
    best_metric: Literal["bleu", "loss"] = "bleu"
    """Validation metric that decides on the best checkpoint and on early stopping."""
    patience: PositiveInt | None = None
    """Stop after this many validations in a row without improvement; null never stops early."""
    sample_translations: NotNegativeInt = 3
    """Number of validation sentences to print with their translations at each validation."""
    keep_last: NotNegativeInt = 0
    """Number of last validations whose weights are also kept, each as checkpoints/step-N.safetensors."""
    keep_best: NotNegativeInt = 0
    """Number of best validations whose weights are also kept, each as checkpoints/step-N.safetensors."""
    average_kept: bool = False
    """When training ends, average the last 2, 3, … keep_last kept checkpoints, and the best 2, 3, … keep_best ones
    (Junczys-Dowmunt et al. 2016). The average that validates best becomes the best checkpoint, if it is better."""
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Services that also receive all training metrics; each needs the extra of its name."""

    @property
    def num_batch_tokens(self) -> int:
        """`batch_tokens` as a number, which it is once training has started."""
        assert self.batch_tokens != "auto", "the batch size has not been chosen yet"
        return self.batch_tokens

    @model_validator(mode="after")
    def _check_settings_agree(self) -> Self:
        if self.lora_rank and not self.lora_targets:
            raise ValueError(f"training.lora_rank = {self.lora_rank} needs at least one of training.lora_targets")
        is_auto = self.batch_tokens == "auto"
        if self.accumulate_batches > 1 and (self.step_tokens is not None or is_auto):
            other = "batch_tokens = 'auto'" if self.step_tokens is None else f"step_tokens = {self.step_tokens}"
            raise ValueError(f"training.accumulate_batches = {self.accumulate_batches} must be 1 with training.{other}")
        if is_auto and self.parallel == "fsdp":
            raise ValueError("training.batch_tokens = 'auto' must be a number with training.parallel = 'fsdp'")
        if not is_auto and self.step_tokens is not None and self.step_tokens < self.num_batch_tokens:
            step, batch = self.step_tokens, self.batch_tokens
            raise ValueError(f"training.step_tokens = {step} is less than training.batch_tokens = {batch}")
        if self.optimizer == "muon" and self.parallel == "fsdp":
            raise ValueError("training.optimizer = 'muon' needs whole matrices, not training.parallel = 'fsdp'")
        if self.frozen_precision == "bf16" and self.precision != "bf16":
            raise ValueError("training.frozen_precision = 'bf16' needs training.precision = 'bf16'")
        if self.frozen_precision == "bf16" and not self.lora_rank and {*self.freeze} <= {"embeddings"}:
            raise ValueError("training.frozen_precision = 'bf16' needs training.lora_rank or layers in training.freeze")
        if self.optimizer == "muon" and self.precision == "fp16":
            raise ValueError("training.optimizer = 'muon' does not work with training.precision = 'fp16'; use bf16")
        if self.average_kept and max(self.keep_last, self.keep_best) < 2:
            raise ValueError("training.average_kept = true needs training.keep_last or training.keep_best of 2 or more")
        if self.schedule == "noam" and self.warmup_steps < 1:
            raise ValueError("training.warmup_steps = 0 must be at least 1 for training.schedule = 'noam'")
        rate, final = self.learning_rate, self.final_learning_rate
        if self.schedule != "noam" and rate > 0.1:
            raise ValueError(f"training.learning_rate = {rate} must be at most 0.1, unless training.schedule = 'noam'")
        if final > rate:
            raise ValueError(f"training.final_learning_rate = {final} must not exceed training.learning_rate = {rate}")
        return self


class EvaluationConfig(Section):
    """How translations are scored."""

    bleu_tokenizer: BleuTokenizer = "13a"
    """SacreBLEU's tokenizer; published scores of European languages use 13a, and those of NLLB flores200 (spBLEU)."""
    programs: dict[Annotated[str, Field(pattern=r"^[\w.+-]+$")], str] = {}
    """Commands of programs that score files, by name, such as `comet: comet-score -s {source} -t {hypothesis} -r
    {reference} --quiet`. They run only when `--metric NAME` asks for one, because a run may come from anybody."""
    # No bound is lower than in an earlier version whose runs may have the value.
    bootstrap_samples: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Number of bootstrap samples for the 95 % interval (Koehn 2004), and of samples for each test in
    `compare`; 0 and 1: no interval and no tests."""

    def tokenizing(self, name: str | None) -> Self:
        """The same with another tokenizer for BLEU; None: with its own."""
        return self if name is None else self.model_copy(update={"bleu_tokenizer": name})


class Config(Section):
    """The whole config of a training run."""

    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] = "run"
    """Name of the run, whose directory is runs/NAME; by default the name of the config file."""
    data: DataConfig = DataConfig()
    """Corpora, and which pairs are left out."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text becomes subwords."""
    model: ModelConfig = ModelConfig()
    """Size and architecture of the Transformer."""
    training: TrainingConfig = TrainingConfig()
    """How long and how fast training runs, and when it validates and saves."""
    decoding: DecodingConfig = DecodingConfig()
    """The search for a translation."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How translations are scored."""

    def __repr__(self) -> str:
        return f"<Config {self.name}, {' → '.join(Languages(self.data).direction)}: {self.model!r}>"

    def decoding_settings(self) -> DecodingConfig:
        """The section `decoding`, with missing token limits taken from `data`."""
        limits = {
            name: getattr(self.decoding, name) or getattr(self.data, name)
            for name in ("max_source_tokens", "max_target_tokens")
        }
        return self.decoding.model_copy(update=limits)

    def validation_search(self) -> DecodingConfig:
        """The quick search with which validations compare checkpoints, to choose the best one.

        Its maximum length is lower than in other searches, because a model that has learnt little rarely ends a
        sentence.
        """
        decoding = self.decoding_settings()
        constant = min(decoding.max_length_constant, max(_MAX_LENGTH_CONSTANT, decoding.min_length_constant))
        plain = {"search": "beam", "beam_size": self.training.validation_beam_size, "n_best": 1, "mbr": "none"}
        return decoding.model_copy(update={**plain, "max_length_constant": constant})

    @property
    def evaluates_at_end(self) -> bool:
        """Whether training ends with an evaluation: it averages, or the validations used another search."""
        is_new = self.training.average_kept or self.decoding_settings() != self.validation_search()
        return is_new and bool(self.data.corpora("validation"))

    @model_validator(mode="after")
    def _check_sections_agree(self) -> Self:
        if self.model.has_one_embedding and self.tokenizer.vocabulary == "separate":
            tying = self.model.tie_embeddings
            raise ValueError(f"model.tie_embeddings = {tying!r} needs tokenizer.vocabulary = 'joint'")
        for name in ("add_characters", "add_languages"):
            if getattr(self.tokenizer, name) and self.training.initialize_from is None:
                raise ValueError(f"tokenizer.{name} extends a vocabulary: name its run as training.initialize_from")
        for name in ("keep_best", "average_kept"):
            if getattr(self.training, name) and self.data.validation is None:
                raise ValueError(f"training.{name} needs scores on data.validation: name a corpus")
        for part in [part for part in self.training.freeze if "." in part]:
            stack, numbers = part.split(".")
            count, ends = getattr(self.model, f"num_{stack}_layers"), [*map(int, numbers.split("-"))]
            base = self.training.initialize_from  # which has the model's sizes
            if ends[0] > ends[-1] or (ends[-1] >= count and (base is None or os.path.exists(base))):
                has = f"the {stack} has layers 0 to {count - 1} (model.num_{stack}_layers = {count})"
                raise ValueError(f"training.freeze = {part}: {has}, and a range begins with the smaller number")
        limits = {f"data.{name}": getattr(self.data, name) for name in ("max_source_tokens", "max_target_tokens")}
        if self.model.positions == "learned" and max(limits.values()) >= self.model.max_positions:
            # The encoder sees the tokens and </s>, the decoder <s> and the tokens.
            raise ValueError(f"model.max_positions = {self.model.max_positions} must exceed {' and '.join(limits)}")
        if self.data.is_streamed and self.training.max_epochs is not None:
            raise ValueError("training.max_epochs cannot be counted with streamed corpora: set training.max_steps")
        for key, limit in limits.items() if self.data.is_streamed else ():
            if self.training.batch_tokens != "auto" and limit >= self.training.batch_tokens:
                raise ValueError(f"{key} = {limit} must be less than training.batch_tokens with a streamed corpus")
        return self
