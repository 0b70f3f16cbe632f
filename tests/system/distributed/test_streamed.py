"""Several processes on a streamed corpus train as one does, and stop, go on and fail together."""

from typing import Any

import pytest
from harness import stream_digits
from trainings import assert_same_tensors, progress_of


@pytest.fixture
def streamed(trainings: Any) -> Any:
    """The trainings, on segments of 300, 300 and 211 pairs, some 3 to 5 steps each."""
    stream_digits(trainings.directory, segment_pairs=300)
    return trainings


def test_as_one_process_and_on_with_another_number(streamed: Any) -> None:
    one, other = streamed.directory / "one", streamed.directory / "other"
    said = streamed.run(1, "one", "threads=2")
    assert f"{streamed.directory / 'train.json'}, pairs 301 to 600 of the stream: 300 of 300 pairs kept" in said
    for size, end in ((2, 3), (1, 7), (2, 12)):
        said = streamed.run(size, "other", f"threads={2 // size}", f"max_steps={end}", resume=end > 3)
        assert "does not say where" not in said
    assert_same_tensors(one, other)


def test_a_process_without_the_file_says_so(streamed: Any) -> None:
    """Before the first step, and in the second pass."""
    gone = (
        "import os\nfrom translate.data import streaming\noriginal = streaming.open_stream\n"
        "def open_stream(corpus, position):\n    global calls\n    calls += 1\n"
        "    if os.environ['RANK'] == '1' and calls == {call}:\n"
        "        raise streaming.InputError(f'{{corpus.path}}: no such file')\n"
        "    return original(corpus, position)\n"
        "calls = 0\nstreaming.open_stream = open_stream\n"
    )
    for call in (1, 2):
        ended = streamed.try_to(2, f"run{call}", first=gone.format(call=call))
        assert all(each.code != 0 for each in ended)
        said = ended[0].said + ended[1].said
        assert "train.json: no such file" in said and "Traceback" not in said


# In the second process the second segment takes until the training ends, and the first is ready for the third: it must
# not wait there for the second process, which never comes.
_ONE_IS_SLOW = """
import os, signal, time
from translate.data import epochs
from translate.model.device import OutOfMemory
from translate.training import step
sample, step_original = epochs.TrainingBatches._resegment, step.TrainStep.__call__
def slowly(self, *chosen, epoch, check):
    while epoch == 1 and os.environ["RANK"] == "1":
        time.sleep(0.01)
        check()
    return sample(self, *chosen, epoch=epoch, check=check)
def until_ended(self, batches, *, number, learning_rate):
    if number == 2 and os.environ["RANK"] == "1":
        time.sleep(1)
        {ending}
    return step_original(self, batches, number=number, learning_rate=learning_rate)
epochs.TrainingBatches._resegment, step.TrainStep.__call__ = slowly, until_ended
"""


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", "stopped by SIGTERM after step 2, and saved"),
        ("raise OutOfMemory('no room')", "no room"),
    ],
)
def test_ends_where_one_is_further_ahead(streamed: Any, ending: str, words: str) -> None:
    ended = streamed.try_to(2, "run", first=_ONE_IS_SLOW.format(ending=ending))
    assert words in ended[0].said + ended[1].said, ended


_NEXT_SEGMENT_FAILS = """
import os, signal, time
from translate.data import streaming
from translate.training import step
segment, step_original = streaming.TrainingStreams.segment, step.TrainStep.__call__
def without_the_second(self, number, **options):
    if number == 1 and os.environ["RANK"] == "1":
        raise streaming.InputError("train.json: no such file")
    return segment(self, number, **options)
def until_stopped(self, batches, *, number, learning_rate):
    if number == 2 and os.environ["RANK"] == "1" and {is_stopped}:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
    return step_original(self, batches, number=number, learning_rate=learning_rate)
streaming.TrainingStreams.segment, step.TrainStep.__call__ = without_the_second, until_stopped
"""


@pytest.mark.parametrize("is_stopped", [True, False])
def test_saves_where_one_cannot_read_the_next_segment(streamed: Any, is_stopped: bool) -> None:
    """Whether it stops before that segment is needed or not, after the last step of the first segment."""
    rarely = ("save_every=1000", "validate_every=1000")
    ended = streamed.try_to(2, "run", *rarely, first=_NEXT_SEGMENT_FAILS.format(is_stopped=is_stopped))
    words = ["stopped by SIGTERM after step 2, and saved", ""]
    if not is_stopped:
        words = ["", "process 2 of 2"]
        assert "segment 2 of the training data: " in ended[1].said and "train.json: no such file" in ended[1].said
    assert all(expected in each.said for expected, each in zip(words, ended, strict=True)), ended
    assert not any("Traceback" in each.said for each in ended)
    assert progress_of(streamed.directory / "run")["step"] == 2


# In the second process, in the thread that prepares the second segment, while the first process waits for its part.
_FAILS_IN_THREAD = """
import os, time
from translate.data import streaming
from translate.training import step
segment, step_original = streaming.TrainingStreams.segment, step.TrainStep.__call__
def fail():
    if os.environ["RANK"] == "1":
        raise {error}
def fails(self, number, **options):
    if number == 1 and "{where}" == "segment":
        fail()
    return segment(self, number, **options)
class Writer(streaming.TokenWriter):
    made = 0
    def finish(self):
        Writer.made += 1
        if Writer.made == 3 and "{where}" == "finish":
            fail()
        return super().finish()
streaming.TrainingStreams.segment, streaming.TokenWriter = fails, Writer
"""


@pytest.mark.parametrize(
    ("where", "error", "code", "words"),
    [
        ("segment", "MemoryError()", 1, "out of memory"),
        ("segment", "KeyError('no such thing')", 70, "no such thing"),
        ("finish", "OSError(28, 'No space left on device', '/scratch/tokens')", 1, "/scratch/tokens"),
    ],
)
def test_any_failure_of_one_ends_all(streamed: Any, where: str, error: str, code: int, words: str) -> None:
    """Also where no exchange is prepared for it."""
    rarely = ("save_every=1000", "validate_every=1000")
    ended = streamed.try_to(2, "run", *rarely, first=_FAILS_IN_THREAD.format(where=where, error=error))
    assert (ended[1].code, ended[0].said.count("Traceback")) == (code, 0), ended
    assert words in ended[1].said
    assert progress_of(streamed.directory / "run")["step"] > 0
