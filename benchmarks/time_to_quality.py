"""BLEU by the clock: this toolkit, a tutorial's loop and MarianMT, each trained for the same minutes on one machine.

    python benchmarks/time_to_quality.py DIR OUT --minutes 4 8 16

DIR contains Multi30k as plain text: train.de, train.en, val.de and val.en. All have two threads, and the subwords of
our preset, which are trained before the clock starts. First the speed of each is measured, in turns: the steps that it
makes in a minute. Only this needs a quiet machine. Then each makes as many steps as fit in the minutes. Its score is
sacreBLEU on val.de with the same greedy search for all.

- ours: the preset multi30k-fast, with its schedule stretched to the minutes.
- tutorial: PyTorch's tutorial on nn.Transformer with its own settings: 3+3 layers of width 512, random batches of 128
  pairs, Adam with a constant rate of 1e-4, no label smoothing, fp32. One training gives the scores of all minutes.
- marian: Hugging Face's MarianMT of our size in a good loop: SDPA, fused AdamW, bf16 where our training takes it, our
  memory settings, and our batches, schedule, decay, dropout, label smoothing and moving average. Its rate is 1e-3, as
  in our preset multi30k-marian, because MarianMT is post-norm, which does not learn at our presets' rates.

OUT/speeds.json and OUT/results.json keep what has been measured, so the command can be repeated until all is there;
with --only-speeds it ends after the first part. Needs the extras `huggingface` and, for the picture, `pictures`.
"""

import argparse
import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from train import marian_model, position_table, run_transformer

LONGEST, CHUNK = 60, 200  # tokens of a translation, and lines that are translated at once
OF_ITS_OWN = {"marian": ["training.learning_rate=1e-3"]}


class Contestant(NamedTuple):
    """A model in training."""

    step: Callable[[int, float], None]  # number of the step from 1, and the share of the time that has passed
    logits: Callable[[Any, Any], Any]  # source ids and target ids so far, both padded, to logits
    translating: Callable[[], Any]  # a context in which `logits` has the weights to translate with


class Setting(NamedTuple):
    """What all contestants share."""

    config: Any  # of translate.config.schema.Config
    corpora: Any
    tokenizers: Any
    batches: Any


def read_setting(folder: Path, overrides: list[str]) -> Setting:
    """The preset, its data, tokenizers and batches."""
    from translate.config.load import load_config
    from translate.training.batch_size import resolve_step_tokens
    from translate.training.preparation import make_batches, make_tokenizers, read_corpora

    texts = {"train": "train", "validation": "val"}
    corpora = {key: {"kind": "text", "source": f"{name}.de", "target": f"{name}.en"} for key, name in texts.items()}
    given = [f"data.root={json.dumps(str(folder))}", f"data.train={json.dumps([corpora['train']])}"]
    given += [f"data.validation={json.dumps(corpora['validation'])}", "data.test.test_2016_flickr=null"]
    config = resolve_step_tokens(load_config("multi30k-fast", [*given, "training.device=cpu", *overrides]).config)
    read = read_corpora(config)
    tokenizers = make_tokenizers(config, read)
    return Setting(config, read, tokenizers, make_batches(config, read, tokenizers))


def step_batches(setting: Setting) -> Iterator[list[Any]]:
    """The batches of each step, as `translate train` makes them."""
    number = setting.config.training.accumulate_batches
    for epoch in count():
        batches = setting.batches.epoch(epoch)
        for first in range(0, len(batches), number):
            yield [batches[index] for index in range(first, min(first + number, len(batches)))]


def scheduled(setting: Setting, share: float) -> float:
    """The learning rate after a share of the time."""
    from translate.training.optimizer import learning_rate

    settings = setting.config.training
    number = max(1, round(share * settings.max_steps))
    return learning_rate(number, settings, d_model=setting.config.model.d_model)


@contextlib.contextmanager
def averaged(model: Any, average: Any) -> Iterator[None]:
    """A context in which a model has its averaged weights, and no dropout."""
    import torch

    own = {name: parameter.data for name, parameter in model.named_parameters()}

    def use(weights: dict[str, Any]) -> None:
        for name, parameter in model.named_parameters():
            parameter.data = weights.get(name, parameter.data)

    model.eval()
    use(average.tensors)
    with torch.inference_mode():
        yield
    use(own)
    model.train()


def build_ours(setting: Setting) -> Contestant:
    """The model, step, moving average and memory settings of `translate train`."""
    import torch

    from translate.memory import configure_memory
    from translate.training.optimizer import AveragedWeights
    from translate.training.setup import setup_training

    configure_memory()
    cpu = torch.device("cpu")
    train_step = setup_training(
        setting.config, setting.tokenizers, device=cpu, batch_tokens=setting.batches.largest_batch
    )
    model, batches = train_step.model, step_batches(setting)
    average = AveragedWeights(model, decay=setting.config.training.ema_decay)

    def step(number: int, share: float) -> None:
        train_step(next(batches), number=number, learning_rate=scheduled(setting, share))
        average.update(model, step=number)

    return Contestant(step, model, lambda: averaged(model, average))


def build_marian(setting: Setting) -> Contestant:
    """MarianMT with our recipe."""
    import torch
    import torch.nn.functional as F

    from translate.data.tokenizer import PAD_ID
    from translate.memory import configure_memory
    from translate.model.precision import choose_precision
    from translate.training.optimizer import AveragedWeights, build_optimizers

    configure_memory()
    ours, settings = setting.config.model, setting.config.training
    model = marian_model(ours, setting.tokenizers.target.vocab_size)
    (optimizer,), batches = build_optimizers(model, settings), step_batches(setting)
    average = AveragedWeights(model, decay=settings.ema_decay)
    is_bf16 = choose_precision("auto", torch.device("cpu")) == "bf16"

    def logits(source: Any, target: Any) -> Any:
        mask = (source != PAD_ID).long()
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits

    def step(number: int, share: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = scheduled(setting, share)
        some = next(batches)
        num_tokens = sum(batch.num_target_tokens for batch in some)
        for batch in some:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
                scores = logits(batch.source_ids, batch.target_input_ids).flatten(0, 1)
                loss = F.cross_entropy(
                    scores,
                    batch.target_output_ids.flatten(),
                    ignore_index=PAD_ID,
                    label_smoothing=settings.label_smoothing,
                    reduction="sum",
                )
            (loss / num_tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update(model, step=number)

    return Contestant(step, logits, lambda: averaged(model, average))


def build_tutorial(setting: Setting) -> Contestant:
    """PyTorch's "Language Translation with nn.Transformer", on subwords instead of words."""
    import math
    import random

    import torch
    from torch import nn

    from translate.data.batching import EncodedPair, collate
    from translate.data.tokenizer import PAD_ID

    width, heads, d_ff, layers, rate, num_pairs = 512, 8, 512, 3, 1e-4, 128
    vocab_size = setting.tokenizers.target.vocab_size

    class Tutorial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(vocab_size, width), nn.Embedding(vocab_size, width)
            self.transformer = nn.Transformer(width, heads, layers, layers, d_ff, dropout=0.1, batch_first=True)
            self.generator, self.dropout = nn.Linear(width, vocab_size), nn.Dropout(0.1)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
            self.register_buffer("table", position_table(5000, width))

        def embed(self, embedding: nn.Embedding, ids: Any) -> Any:
            return self.dropout(embedding(ids) * math.sqrt(width) + self.table[: ids.shape[1]])

        def forward(self, source: Any, target: Any) -> Any:
            embedded = self.embed(self.source, source), self.embed(self.target, target)
            return self.generator(run_transformer(self.transformer, source, target, *embedded))

    model = Tutorial().train()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    (corpus,), encoder = setting.corpora.train, setting.tokenizers
    pairs = [
        EncodedPair(encoder.source.encode(source), encoder.target.encode(target))
        for source, target in zip(corpus.sources, corpus.targets, strict=True)
    ]
    draw, waiting = random.Random(1), list[EncodedPair]()

    def step(number: int, share: float) -> None:
        if not waiting:
            waiting.extend(draw.sample(pairs, len(pairs)))
        some = [waiting.pop() for _ in range(min(num_pairs, len(waiting)))]
        batch = collate(some, range(len(some)))
        optimizer.zero_grad()
        loss = criterion(
            model(batch.source_ids, batch.target_input_ids).flatten(0, 1), batch.target_output_ids.flatten()
        )
        loss.backward()
        optimizer.step()

    @contextlib.contextmanager
    def translating() -> Iterator[None]:
        model.eval()
        with torch.inference_mode():
            yield
        model.train()

    return Contestant(step, model, translating)


CONTESTANTS = {"ours": build_ours, "marian": build_marian, "tutorial": build_tutorial}


def score(contestant: Contestant, setting: Setting) -> float:
    """BLEU of greedy search on the validation set; all contestants have this search."""
    import sacrebleu
    import torch

    from translate.data.batching import EncodedPair, collate
    from translate.data.tokenizer import BOS_ID, EOS_ID

    (corpus,), tokenizers = setting.corpora.validation.values(), setting.tokenizers
    lines, texts = list(corpus.sources), []
    with contestant.translating():
        for first in range(0, len(lines), CHUNK):
            pairs = [EncodedPair(tokenizers.source.encode(line), []) for line in lines[first : first + CHUNK]]
            source_ids, ids = collate(pairs, range(len(pairs))).source_ids, torch.full((len(pairs), 1), BOS_ID)
            for _ in range(LONGEST):
                ids = torch.cat([ids, contestant.logits(source_ids, ids)[:, -1:].argmax(dim=-1)], dim=1)
                if (ids == EOS_ID).any(dim=1).all():
                    break
            rows = [row[1 : row.index(EOS_ID) if EOS_ID in row else None] for row in ids.tolist()]
            texts += [tokenizers.target.decode(row) for row in rows]
    return float(sacrebleu.corpus_bleu(texts, [list(corpus.targets)]).score)


def prepare(name: str, arguments: argparse.Namespace) -> tuple[Contestant, Setting]:
    """A contestant in this process."""
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    overrides = [f"training.seed={arguments.seed}", *OF_ITS_OWN.get(name, []), *arguments.override]
    setting = read_setting(arguments.folder, overrides)
    return CONTESTANTS[name](setting), setting


def measure_speed(name: str, arguments: argparse.Namespace, output: Path) -> None:
    """Write how many steps a contestant makes in a minute; the first steps, a third of all, do not count."""
    contestant, _ = prepare(name, arguments)
    begun, number, counted = time.perf_counter(), 0, 0
    while (seconds := time.perf_counter() - begun) < 1.5 * arguments.seconds:
        number += 1
        contestant.step(number, 0.5)
        if seconds < 0.5 * arguments.seconds:
            counted, start = number, time.perf_counter()
    speed = 60 * (number - counted) / (time.perf_counter() - start)
    output.write_text(json.dumps(speed), encoding="utf-8")


def train(name: str, steps: dict[str, int], arguments: argparse.Namespace, output: Path) -> None:
    """Train one contestant for the most steps, and write its BLEU after each number of steps, by the minutes."""
    contestant, setting = prepare(name, arguments)
    most, found = max(steps.values()), {}
    for number in range(1, most + 1):
        contestant.step(number, number / most)
        for minutes in [each for each, last in steps.items() if last == number]:
            found[minutes] = {"steps": number, "bleu": score(contestant, setting)}
            print(f"{name}, {minutes} minutes: {number:,} steps, {found[minutes]['bleu']:.2f} BLEU", flush=True)
    output.write_text(json.dumps(found), encoding="utf-8")


def in_new_process(work: Callable[..., None], *given: Any) -> Any:
    """The JSON that some work writes, in a process that ends afterwards; None: it failed, and has said why."""
    part = given[-1].output / "part.json"
    part.unlink(missing_ok=True)
    process = multiprocessing.get_context("spawn").Process(target=work, args=(*given, part))
    process.start()
    process.join()
    return json.loads(part.read_text("utf-8")) if part.exists() else None


def main() -> None:
    """Measure speeds, train what is not there yet, print a table, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, nargs="+", default=[4.0, 8.0, 16.0])
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--only-speeds", action="store_true", help="only measure the speeds; train nothing")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn, in which the speed is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--override", nargs="*", default=[], help="of the preset, for ours and MarianMT")
    arguments = parser.parse_args()

    arguments.output.mkdir(parents=True, exist_ok=True)
    speeds_file, file = (arguments.output / f"{name}.json" for name in ("speeds", "results"))
    speeds: dict[str, list[float]] = json.loads(speeds_file.read_text("utf-8")) if speeds_file.exists() else {}
    results: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for turn in range(arguments.turns):
        for name in arguments.only:
            if len(speeds.setdefault(name, [])) <= turn:
                speeds[name].append(in_new_process(measure_speed, name, arguments))
                print(f"{name}: {speeds[name][-1]:.1f} steps per minute", flush=True)
                speeds_file.write_text(json.dumps(speeds, indent=2) + "\n", encoding="utf-8")
    if arguments.only_speeds:
        return
    for name in arguments.only:
        speed, found = statistics.median(speeds[name]), results.setdefault(name, {})
        steps = {f"{minutes:g}": max(1, round(speed * minutes)) for minutes in arguments.minutes}
        missing = {minutes: number for minutes, number in steps.items() if minutes not in found}
        # Without a schedule one training passes through all minutes; with one, each has its own.
        for part in [missing] if name == "tutorial" and missing else [{each: missing[each]} for each in missing]:
            found |= in_new_process(train, name, part, arguments) or {}
            file.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    shown = [f"{each:g}" for each in sorted(arguments.minutes)]
    print("| minutes |" + "".join(f" {each} |" for each in shown) + "\n|---|" + "---:|" * len(shown))
    for name, found in results.items():
        cells = [f"{found[each]['bleu']:.2f} ({found[each]['steps']:,})" if each in found else "–" for each in shown]
        print(f"| {name} |" + "".join(f" {cell} |" for cell in cells))
    draw(results, arguments.output / "time_to_quality.svg")


def draw(results: dict[str, dict[str, Any]], file: Path) -> None:
    """Draw BLEU against minutes, a line for each contestant."""
    from translate.errors import InputError
    from translate.visualize.page import draw_figure
    from translate.visualize.panels import Curves, Picture, Series

    series = []
    for name, found in results.items():
        minutes, bleu = zip(*sorted((float(minutes), each["bleu"]) for minutes, each in found.items()), strict=True)
        series.append(Series(name, minutes, bleu, "validation"))
    panel = Curves("BLEU on validation, greedy", "minutes", "BLEU", series)
    try:
        file.write_bytes(draw_figure(Picture("BLEU by the clock", [], [panel]), format="svg"))
    except InputError as error:
        print(f"no picture: {error}")


if __name__ == "__main__":
    main()
