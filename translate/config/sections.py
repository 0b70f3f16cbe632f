"""Every knob: its default, its meaning, its bounds. Frozen data; nothing here knows a class that it configures.

A docstring under a field is its documentation: `translate config schema` prints it, and editors show it.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, field_validator, model_validator
from pydantic_core import PydanticCustomError

from translate.config.corpora import (
    Corpus,
    DataConfig,
    HubCorpus,
    TableCorpus,
    TextCorpus,
    TokenizerConfig,
    TsvCorpus,
)
from translate.config.decoding import DecodingConfig
from translate.config.section import PositiveInt, Probability, Section

__all__ = [
    "Config",
    "Corpus",
    "DataConfig",
    "DecodingConfig",
    "EvaluationConfig",
    "HubCorpus",
    "ModelConfig",
    "TableCorpus",
    "TextCorpus",
    "TokenizerConfig",
    "TrainingConfig",
    "TsvCorpus",
]


class ModelConfig(Section):
    """The encoder-decoder Transformer; the defaults are transformer-base of Vaswani et al. 2017."""

    d_model: Annotated[int, Field(ge=2, le=65536)] = 512
    """Width of the residual stream."""
    num_heads: PositiveInt = 8
    """Attention heads; must divide d_model."""
    d_ff: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """Width of the feed-forward layer's inside."""
    num_encoder_layers: Annotated[int, Field(ge=1, le=1000)] = 6
    """Encoder layers."""
    num_decoder_layers: Annotated[int, Field(ge=1, le=1000)] = 6
    """Decoder layers."""
    dropout: Probability = 0.1
    """Dropout on each sub-layer's output and on the sum of embeddings and positions."""
    attention_dropout: Probability = 0.0
    """Dropout on the attention weights."""
    activation_dropout: Probability = 0.0
    """Dropout inside the feed-forward layer, after the activation."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each residual sum (the paper) or before each sub-layer (Xiong et al. 2020)."""
    norm_epsilon: Annotated[float, Field(gt=0.0, le=0.1)] = 1e-5
    """Added to the variance in layer normalisation."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative"] = "sinusoidal"
    """The paper's sines, a learned table, rotary (Su et al. 2021), or T5's relative bias (Raffel et al. 2020)."""
    max_positions: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Rows of the learned table, and so a hard limit on its sequences; the other kinds have no limit."""
    relative_buckets: Annotated[int, Field(ge=4, le=65536)] = 32
    """Number of distance buckets of the relative bias."""
    relative_max_distance: Annotated[int, Field(ge=2, le=1_000_000)] = 128
    """Distances from here on share the relative bias's last bucket."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward layer; swiglu (Shazeer 2020) has a third matrix."""
    tie_embeddings: Literal["none", "decoder", "all"] = "all"
    """decoder: the output layer is the target embedding; all: so is the source embedding (needs a joint vocabulary)."""
    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model), as the paper does."""
    initialization: Literal["paper", "xavier"] = "paper"
    """paper, as in its code: Xavier for each projection, N(0, 1/d_model) for embeddings; xavier: each matrix whole."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(f"model.num_heads = {self.num_heads} must divide model.d_model = {self.d_model}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"model.d_model = {self.d_model} must be even for sinusoidal positions")
        if self.positions == "rotary" and (self.d_model // self.num_heads) % 2:
            width = self.d_model // self.num_heads
            raise ValueError(f"model.d_model / model.num_heads = {width} must be even for rotary positions")
        if self.positions == "relative" and self.relative_max_distance <= self.relative_buckets // 2:
            raise ValueError(
                f"model.relative_max_distance = {self.relative_max_distance} must be more than half of"
                f" model.relative_buckets = {self.relative_buckets}"
            )
        return self


class TrainingConfig(Section):
    """The trainer: how long, how fast, what is saved when."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seeds initialisation, dropout, shuffling and subword sampling."""
    max_steps: PositiveInt = 100_000
    """Stop after this many optimizer steps."""
    max_epochs: PositiveInt | None = None
    """Stop after this many passes over the data, if that comes first."""
    batch_tokens: PositiveInt | Literal["auto"] = 4096
    """A batch has at most this many tokens, padding counted, on each of its two sides. auto: on CUDA as many as fit in
    memory, found by doubling before the first step; elsewhere 4096, as larger batches are no faster there; but at most
    step_tokens (null: 25,000, the paper's). The run's config has the number, so that a resume is exact."""
    accumulate_batches: PositiveInt = 1
    """Batches whose gradients are summed for one optimizer step."""
    step_tokens: PositiveInt | None = None
    """The same in tokens: as many batches a step as together have about so many tokens, padding counted, on each side.
    So a config trains alike whatever batch its machine can hold. null: as accumulate_batches says."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Kingma and Ba 2015, or with decoupled weight decay (Loshchilov and Hutter 2019)."""
    adam_beta1: Probability = 0.9
    """Decay of the first moment."""
    adam_beta2: Probability = 0.98
    """Decay of the second moment."""
    adam_epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-9
    """Added to the root of the second moment."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Weight decay of matrices; biases and norms have none. With adam it is L2 regularisation."""
    schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine"] = "noam"
    """The rate after the warm-up: noam and inverse_sqrt fall with 1/sqrt(step), linear and cosine end at max_steps."""
    learning_rate: Annotated[float, Field(gt=0.0, le=100.0)] = 1.0
    """The highest rate, when the warm-up ends; for noam a factor on the paper's d_model^-0.5 · warmup_steps^-0.5."""
    final_learning_rate: Annotated[float, Field(ge=0.0)] = 0.0
    """What linear and cosine end at."""
    warmup_steps: Annotated[int, Field(ge=0)] = 4000
    """Steps in which the rate rises linearly from 0."""
    label_smoothing: Probability = 0.1
    """Probability mass moved from the target to the whole vocabulary."""
    max_gradient_norm: Annotated[float, Field(gt=0.0)] | None = None
    """Gradients with a larger norm are scaled down to it; null: never."""
    ema_decay: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Validate and save an exponential moving average of the weights; null: the weights themselves."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of matrix products; weights and optimizer stay fp32. auto: bf16 where the hardware multiplies it."""
    tf32: bool = True
    """On CUDA, round the factors of fp32 products to 10 bits of mantissa: far faster, and as good for training."""
    deterministic: bool = True
    """On CUDA, only kernels that give the same bits each time, so that a resume is exact; false: somewhat faster."""
    batch_layout: Literal["auto", "padded", "packed"] = "auto"
    """packed: no padding is computed; auto: so on CUDA where variable-length flash attention works, else padded."""
    compile: bool = False
    """Compile the layers by torch.compile, meant for long trainings on GPUs: on a CPU steps were slower for it."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads; null: as torch chooses, or of several processes that torchrun starts here an equal part for each."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Of several processes: ddp, each has all weights; fsdp, each has a part of them, for models that do not fit."""
    validate_every: PositiveInt = 1000
    """Steps between validations."""
    save_every: PositiveInt = 1000
    """Steps between checkpoints to resume from; one is also written at each validation and at the end."""
    log_every: PositiveInt = 100
    """Steps between lines of metrics."""
    best_metric: Literal["bleu", "loss"] = "bleu"
    """Validation metric that chooses the best checkpoint and stops early."""
    patience: PositiveInt | None = None
    """Stop after this many validations in a row without a better one; null: never."""
    sample_translations: Annotated[int, Field(ge=0)] = 3
    """Validation sentences printed with their translations at each validation."""
    tensorboard: bool = False
    """Also write TensorBoard events (needs the extra `tensorboard`)."""

    @property
    def num_batch_tokens(self) -> int:
        """`batch_tokens` where it is a number: in every training that has begun."""
        assert self.batch_tokens != "auto", "the batch size has not been settled"
        return self.batch_tokens

    @field_validator("batch_tokens", mode="wrap")
    @classmethod
    def _is_number_or_auto(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError:  # it would tell what is wrong with each alternative
            raise PydanticCustomError("number_or_auto", "should be auto or a whole number of at least 1") from None

    @model_validator(mode="after")
    def _steps_are_said_once(self) -> Self:
        if self.accumulate_batches > 1 and (self.step_tokens is not None or self.batch_tokens == "auto"):
            other = "training.batch_tokens = 'auto'"
            if self.step_tokens is not None:
                other = f"training.step_tokens = {self.step_tokens}"
            raise ValueError(
                f"training.accumulate_batches = {self.accumulate_batches} cannot stand beside {other}: set it to 1, and"
                " training.step_tokens to the tokens that a step should see"
            )
        if self.batch_tokens == "auto" and self.parallel == "fsdp":
            raise ValueError(
                "training.batch_tokens = 'auto' tries the whole model on one device, and training.parallel = 'fsdp' is"
                " for models that do not fit there: give training.batch_tokens a number"
            )
        if self.step_tokens is not None and self.batch_tokens != "auto" and self.step_tokens < self.batch_tokens:
            raise ValueError(
                f"training.step_tokens = {self.step_tokens} is less than training.batch_tokens = {self.batch_tokens},"
                " and a step has at least one batch: lower training.batch_tokens to it, or raise training.step_tokens"
            )
        return self

    @model_validator(mode="after")
    def _rate_fits_schedule(self) -> Self:
        if self.schedule == "noam" and self.warmup_steps < 1:
            raise ValueError("training.warmup_steps = 0 must be at least 1 for training.schedule = 'noam'")
        if self.schedule != "noam" and self.learning_rate > 0.1:
            raise ValueError(
                f"training.learning_rate = {self.learning_rate}: training.schedule = '{self.schedule}' takes the"
                " highest rate itself, such as 0.001 (at most 0.1); only noam takes a factor such as 1.0"
            )
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"training.final_learning_rate = {self.final_learning_rate} must not exceed"
                f" training.learning_rate = {self.learning_rate}"
            )
        return self


class EvaluationConfig(Section):
    """Scoring of translations."""

    bleu_tokenizer: Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"] = "13a"
    """SacreBLEU's tokenizer; 13a is the one that published scores use for European languages."""
    bootstrap_samples: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Resamplings for the 95 % interval (Koehn 2004); 0: no interval."""


class Config(Section):
    """One training run, whole."""

    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] = "run"
    """Name of the run: its directory is runs/NAME. Defaults to the config file's name."""
    data: DataConfig = DataConfig()
    """Which pairs, and which of them are left out."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text becomes subwords."""
    model: ModelConfig = ModelConfig()
    """The network's shape."""
    training: TrainingConfig = TrainingConfig()
    """How long, how fast, what is saved when."""
    decoding: DecodingConfig = DecodingConfig()
    """The search for a translation."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Scoring of translations."""

    def decoding_settings(self) -> DecodingConfig:
        """The section `decoding`, with the values that it takes from `data` where it has none of its own."""
        limits = {
            name: getattr(self.decoding, name) or getattr(self.data, name)
            for name in ("max_source_tokens", "max_target_tokens")
        }
        return self.decoding.model_copy(update=limits)

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.model.tie_embeddings == "all" and self.tokenizer.vocabulary == "separate":
            raise ValueError(
                "model.tie_embeddings = 'all' needs tokenizer.vocabulary = 'joint'; 'decoder' and 'none' do not"
            )
        if self.data.is_streamed:
            self._refuse_unstreamable()
        if self.model.positions == "learned":
            # The encoder sees the tokens and </s>, the decoder <s> and the tokens.
            longest = max(self.data.max_source_tokens, self.data.max_target_tokens) + 1
            if longest > self.model.max_positions:
                raise ValueError(
                    f"model.max_positions = {self.model.max_positions} is less than data.max_source_tokens or"
                    f" data.max_target_tokens with its special symbol, {longest}"
                )
        return self

    def _refuse_unstreamable(self) -> None:
        if self.training.max_epochs is not None:
            raise ValueError(
                f"training.max_epochs = {self.training.max_epochs} counts passes over the data, and with a streamed"
                " corpus an epoch is a segment of data.stream_segment_pairs; say when to stop by training.max_steps"
            )
        for name in ("max_source_tokens", "max_target_tokens"):
            longest = getattr(self.data, name) + 1
            if self.training.batch_tokens != "auto" and longest > self.training.batch_tokens:
                raise ValueError(
                    f"data.{name} = {longest - 1} with its special symbol is more than training.batch_tokens ="
                    f" {self.training.batch_tokens}; a streamed corpus cannot be looked through for pairs that fill"
                    " no batch, so raise training.batch_tokens or lower the other"
                )
