"""`average`: average a run's kept checkpoints."""

import functools
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from translate.cli.terminal.lines import print_result
from translate.cli.terminal.options import JsonOption, RunArgument

if TYPE_CHECKING:
    from translate.training.averaging import ScoredAverage


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
    from translate.evaluation.test_sets import choose_test_sets

    test_sets = choose_test_sets(run.config, name="validation")
    from translate.runs.metadata import describe_moment
    from translate.training.averaging import average_run

    say = functools.partial(print_result, as_json=as_json)
    num_lines = sum(len(pairs.sources) for pairs in test_sets.values())
    tried: list[ScoredAverage] = []

    def show(scored: "ScoredAverage") -> None:
        if not tried:
            say(f"{', '.join(test_sets)}, {num_lines:,} lines\n  average of    BLEU    loss  checkpoints")
        tried.append(scored)
        scores = f"{scored.validation.evaluation.score('BLEU'):8.2f}{scored.validation.loss:8.3f}"
        say(f"  {scored.name:<10}{scores}  {', '.join(f'{step:,}' for step in scored.steps)}")

    chosen = average_run(run, checkpoints or (), test_sets, on_scored=show, is_dry_run=dry_run)
    verdict = "No average is better than the best checkpoint, which stays as it is"
    if len(chosen.checkpoints) > 1:
        what = "Best" if dry_run else f"Now the best checkpoint of {run}"
        verdict = f"{what}: {describe_moment(chosen.steps[-1], chosen.steps)}"
    results = [
        {"steps": scored.steps, "BLEU": scored.validation.evaluation.score("BLEU"), "loss": scored.validation.loss}
        for scored in tried
    ]
    say(verdict, {"num_lines": num_lines, "tried": results, "best": results[tried.index(chosen)]})
