"""`average`: average a run's kept checkpoints."""

import contextlib
import functools
import json
from typing import Annotated

from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.lines import print_result
from translate.cli.terminal.options import JsonOption, RunArgument
from translate.errors import InputError


def average(
    run: RunArgument,
    checkpoints: Annotated[
        list[str] | None,
        Argument(metavar="CHECKPOINT", help="Such as step-4000. Default: all kept checkpoints."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Do not change the run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Average kept checkpoints of a run, and make the best-scoring average the best checkpoint.

    Tries the last 2, 3 and more checkpoints that training kept, and the best 2, 3 and more: see training.keep_last and
    training.keep_best. The best checkpoint stays unless an average is better; then the old one is kept as step-N.

    Examples:
      translate average runs/demo
      translate average runs/demo step-800 step-900 last --dry-run
    """
    from translate.atomic import open_append
    from translate.config.load import read_resolved_config
    from translate.evaluation.test_sets import choose_test_sets
    from translate.runs.directory import open_run
    from translate.runs.lock import lock_run

    directory = open_run(run)
    with contextlib.nullcontext() if dry_run else lock_run(run):
        config = read_resolved_config(directory.config)
        test_sets = choose_test_sets(config, name="validation")
        num_lines = sum(len(pairs.sources) for pairs in test_sets.values())
        from translate.model.device import choose_device
        from translate.runs.checkpoint import read_progress, read_tensors
        from translate.runs.loading import load_run
        from translate.runs.metadata import describe_moment
        from translate.runs.progress import Progress
        from translate.training.best_checkpoint import ScoredAverage, kept_windows, load_average, write_average
        from translate.training.validation import mean_validation, validate

        last = directory.checkpoint("last")
        metadata = read_tensors(last, prefixes=()).metadata if last.is_file() else None
        progress = Progress("") if metadata is None else read_progress(last, metadata)
        there = directory.kept_steps()
        progress.kept = {step: score for step, score in progress.kept.items() if step in there}
        windows = {"given": tuple(checkpoints or ())}
        if not checkpoints:
            windows = kept_windows(progress, last=config.training.keep_last, best=config.training.keep_best)
        if not all(len({*names}) == len(names) > 1 for names in windows.values() or [()]):
            raise InputError(f"{run}: name two or more checkpoints, or train with training.keep_last=8 to keep some")
        loaded = load_run(run, device=choose_device(config.decoding.device))
        say = functools.partial(print_result, as_json=as_json)
        say(f"{', '.join(test_sets)}, {num_lines:,} lines\n  average of    BLEU    loss  checkpoints")
        tried: list[ScoredAverage] = []
        for name, names in {"best": ("best",), **windows}.items():
            steps = load_average(directory, names, loaded.model)
            with show_progress("Validating", 2 * num_lines, unit="lines") as advance:
                score = functools.partial(validate, config=config, on_finished=advance)
                scored = [score(loaded.model, loaded.tokenizers, pairs) for pairs in test_sets.values()]
            validation = mean_validation(scored)
            tried.append(ScoredAverage(names, steps, validation))
            scores = f"{validation.evaluation.score('BLEU'):8.2f}{validation.loss:8.3f}"
            say(f"  {name:<10}{scores}  {', '.join(f'{step:,}' for step in steps)}")
        chosen = max(tried, key=lambda each: each.validation.score(config.training.best_metric))
        is_average = len(chosen.checkpoints) > 1
        if is_average and not dry_run:
            write_average(directory, chosen.checkpoints, loaded.model)
            with open_append(directory.metrics) as file:
                file.write(f"{json.dumps(chosen.to_record(step=max(progress.step, *chosen.steps)))}\n".encode())
    results = [
        {"steps": each.steps, "BLEU": each.validation.evaluation.score("BLEU"), "loss": each.validation.loss}
        for each in tried
    ]
    what = "Best" if dry_run else f"Now the best checkpoint of {run}"
    verdict = f"{what}: {describe_moment(chosen.steps[-1], chosen.steps)}"
    if not is_average:
        verdict = "No average is better than the best checkpoint, which stays as it is"
    say(verdict, {"num_lines": num_lines, "tried": results, "best": results[tried.index(chosen)]})
