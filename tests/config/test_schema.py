"""How large a batch and a step may be said to be, and what is said where the two contradict each other."""

import pytest

from translate.config.load import load_config
from translate.errors import InputError


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "aut", "null", "true"])
def test_a_batch_size_is_a_number_or_auto(value: str) -> None:
    with pytest.raises(
        InputError, match=r"^training.batch_tokens = .*: should be auto or a whole number of at least 1 "
    ):
        load_config("demo", [f"training.batch_tokens={value}"])
    assert load_config("demo", ["training.batch_tokens=auto"]).config.training.batch_tokens == "auto"
    assert load_config("demo", ["training.batch_tokens=1"]).config.training.num_batch_tokens == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["training.batch_tokens=auto", "training.step_tokens=null", "training.accumulate_batches=3"],
            "training.accumulate_batches = 3 cannot be combined with training.batch_tokens = 'auto': set it to 1, and"
            " training.step_tokens to the tokens of one step (command line)",
        ),
        (
            ["training.step_tokens=9000", "training.accumulate_batches=3"],
            "training.accumulate_batches = 3 cannot be combined with training.step_tokens = 9000: set it to 1, and"
            " training.step_tokens to the tokens of one step (command line)",
        ),
        (
            ["training.step_tokens=1999", "training.batch_tokens=2000"],
            "training.step_tokens = 1999 is less than training.batch_tokens = 2000, and a step has at least one batch:"
            " lower training.batch_tokens to it, or raise training.step_tokens (command line)",
        ),
        (
            ["training.batch_tokens=auto", "training.parallel=fsdp"],
            "training.batch_tokens = 'auto' measures the whole model on one device, and training.parallel = 'fsdp' is"
            " for models that do not fit there: give training.batch_tokens a number (command line)",
        ),
    ],
)
def test_contradictions(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load_config("demo", overrides)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["training.average_kept=true", "training.keep_last=1"],
            "training.average_kept = true averages at least two checkpoints: set training.keep_last or"
            " training.keep_best to 2 or more, such as training.keep_last = 8 (command line)",
        ),
        (
            ["training.keep_best=3", "data.validation=null"],
            "training.keep_best compares scores on data.validation, which is null: name a corpus (command line)",
        ),
    ],
)
def test_what_averages_need(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load_config("demo", overrides)
    assert str(error.value) == message
