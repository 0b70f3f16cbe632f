"""Each finding is made on a config that deserves it, and none on those that do not."""

import re

import pytest

from translate.config.load import load_config
from translate.config.schema import Config
from translate.config.yaml import preset_names
from translate.lint.settings import DataFacts, settings_findings
from translate.training.batch_size import resolve_step_tokens

# As of Multi30k with its preset: 29,000 pairs in 389 batches, two per step, and 7.6 million parameters.
MULTI30K = DataFacts(
    num_pairs=29_000,
    num_left_out=0,
    num_target_tokens=443_000,
    num_batches=389,
    num_parameters=7_578_624,
    is_extended=False,
)


def configured(overrides: str = "") -> Config:
    """The Multi30k preset as a training resolves it."""
    return resolve_step_tokens(load_config("multi30k", overrides.split()).config)


@pytest.mark.parametrize("preset", preset_names())
def test_our_presets_have_no_findings(preset: str) -> None:
    # 4.5 million pairs, some 130 million target tokens, 65 million parameters: Vaswani et al. 2017, section 5.
    facts = DataFacts(4_500_000, 0, 130_000_000, 33_000, 63_000_000, is_extended=False)
    assert list(settings_findings(load_config(preset, []).config, facts)) == []


# fmt: off
@pytest.mark.parametrize("overrides, name, message, hint", [
    ("training.warmup_steps=4000", "warmup_longer_than_training", "training.max_steps = 4000", "warmup_steps=400, or"),
    # The paper's peak here: 256^-0.5 · 4000^-0.5 = 9.88e-4; five times that is 4.94e-3, a twentieth 4.9e-5.
    ("training.learning_rate=0.005", "learning_rate_unusual", "peaks at 9.9e-04", "training.learning_rate=1e-03"),
    ("training.optimizer=muon training.learning_rate=0.01", "learning_rate_unusual", "= 0.01 with", "1e-03"),
    ("training.learning_rate=4e-5", "learning_rate_unusual", "training.learning_rate = 4e-05 with", "1e-03"),
    # 0.001 · (256 · 400)^-0.5 = 3.1e-6; √(400 / 4000) = 0.32
    ("training.schedule=noam training.learning_rate=0.001", "learning_rate_unusual", "peaks at 3.1e-06",
     "training.learning_rate=0.32 with training.warmup_steps=400"),
    ("training.schedule=noam training.learning_rate=1 training.warmup_steps=4000", "warmup_longer_than_training",
     "training.max_steps = 4000", "training.warmup_steps=400 training.learning_rate=0.32, or"),
    ("model.norm=post model.num_encoder_layers=6 training.warmup_steps=500", "post_norm_deep",
     "with 6 layers and training.warmup_steps = 500", "set model.norm=pre"),
    ("model.norm=post model.num_decoder_layers=16 training.warmup_steps=1000", "post_norm_deep", "16 layers", "pre"),
    ("training.freeze=[encoder,decoder.0-1]", "frozen_at_random", "training.freeze = [encoder, decoder.0-1]",
     "training.initialize_from"),
    ("training.lora_rank=8", "frozen_at_random", "training.lora_rank = 8", "training.initialize_from"),
    ("data.train.0.both_directions=true", "direction_not_validated",
     "no corpus for en-de", "both_directions=true"),
    ("data.validation=null", "no_validation", "data.validation names no corpus", "about a thousand pairs"),
])
def test_settings_alone(overrides: str, name: str, message: str, hint: str) -> None:
    (finding,) = settings_findings(configured(overrides), MULTI30K)
    assert finding.name == name
    assert message in finding.message and hint in finding.hint


@pytest.mark.parametrize("overrides, facts, name, message", [
    ("", {"num_left_out": 2901}, "many_left_out", "2,901 of 29,000 training pairs (10.0%)"),
    ("", {"num_batches": 1800}, "small_steps", "an optimizer step sees 492 target tokens"),
    ("model.dropout=0", {}, "no_dropout", "29,000 pairs seen 21 times"),  # 4000 / 195
    ("", {"num_parameters": 49_000_000}, "model_large_for_corpus", "443,000 target tokens, 111 per token"),
    ("training.max_epochs=10", {}, "schedule_cut_short", "at step 1950, and training.schedule = 'cosine' falls until"),
    ("training.max_steps=19598", {}, "very_many_epochs", "19598 passes 101 times over the 29,000 pairs"),
])
def test_settings_and_data(overrides: str, facts: dict[str, int], name: str, message: str) -> None:
    (finding,) = settings_findings(configured(overrides), MULTI30K._replace(**facts))
    assert finding.name == name
    assert message in finding.message


@pytest.mark.parametrize("overrides, facts", [
    ("", {}),
    ("training.learning_rate=0.0049", {}),
    ("training.learning_rate=5e-5", {}),
    ("training.max_epochs=10 training.schedule=inverse_sqrt", {}),
    ("training.schedule=noam training.learning_rate=1.0", {}),
    ("model.norm=post model.num_encoder_layers=5 training.warmup_steps=100", {}),
    ("model.norm=post model.num_encoder_layers=12 training.warmup_steps=1000", {}),
    ("training.weight_decay=0.01", {}),
    ("training.lora_alpha=16 training.schedule=wsd training.decay_share=0.2 training.final_learning_rate=1e-5", {}),
    ("", {"num_left_out": 2900}),
    ("", {"num_batches": 1760}),
    # Accumulated batches are one step: 450 steps of 984 tokens.
    ("training.accumulate_batches=4 training.step_tokens=null", {"num_batches": 1800}),
    ("model.dropout=0 training.max_steps=900", {}),
    ("", {"num_parameters": 22_000_000}),
    ("training.max_steps=60000 training.patience=5", {}),
    ("training.max_steps=60000 training.max_epochs=20 training.schedule=constant", {}),
])
def test_silent_up_to_the_border(overrides: str, facts: dict[str, int]) -> None:
    assert list(settings_findings(configured(overrides), MULTI30K._replace(**facts))) == []


@pytest.mark.parametrize("overrides", [
    "max_steps=1 schedule=noam learning_rate=0.001",
    "max_steps=9 warmup_steps=9",
    "max_steps=10",
    "max_steps=100 schedule=noam learning_rate=0.001",
    "max_steps=1000 schedule=noam learning_rate=1 warmup_steps=4000",
    "max_steps=5000 schedule=noam learning_rate=90",
    "max_steps=6000 norm=post num_encoder_layers=6",
    "max_steps=400 norm=post learning_rate=1e-6",
    "max_steps=100000 validate_every=50000 dropout=0",
    "max_steps=60000 optimizer=adam weight_decay=0.01",
])
# fmt: on
def test_advice_is_not_circular(overrides: str) -> None:
    """Whoever does what the hints say, again and again, comes to the end; a trial of a few steps may stay as it is."""
    model = {"norm", "num_encoder_layers", "dropout"}
    given = [f"{'model' if each.split('=')[0] in model else 'training'}.{each}" for each in overrides.split()]
    for _ in range(3):
        config = configured(" ".join(given))
        findings = list(settings_findings(config, MULTI30K))
        hints = [hint for each in findings for hint in re.findall(r"[a-z]+\.[a-z_]+=[\w.e+-]*\w", each.hint)]
        given += hints
    assert len(given) > len(overrides.split()) and hints == []
    assert findings == []
