"""How fast this toolkit, CTranslate2 and Hugging Face's generate translate with the same weights.

    python benchmarks/decode.py RUN --source test.de --reference test.en

Each engine runs in a process of its own, loads once (not timed) and waits for its turn; the turns alternate, so that a
noisy machine is noisy for all. Before that, each engine tries its thread layouts and batch sizes once, on the first
lines, and keeps the fastest. Times are of whole files: text in, detokenised text out; only "ctranslate2 alone" gets
subwords and returns subwords. "auto" is what `translate decode` does where CTranslate2 is installed.

Needs the extras `ctranslate2`, `huggingface` and `onnx`, and a RUN. An engine whose package is missing is
reported and left out. "onnx" is the code of docs/exporting.md, which searches greedily.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from engines import print_ratios, start_engines, stop_engines

from translate.errors import InputError

Translate = Callable[[Sequence[str], int], list[str]]  # lines and beam size to translations


class Layout(NamedTuple):
    """How an engine spreads its work."""

    workers: int
    threads: int  # of each worker
    batch: int  # lines; of ours, hundreds of tokens


def build_ours(run: Path, layout: Layout, *, precision: str) -> Translate:
    """`translate decode`, with workers as threads of one process."""
    import torch

    from translate.decoding.loading import load_own_translator

    torch.set_num_threads(layout.workers * layout.threads)
    options = {"precision": precision, "device": "cpu", "workers": layout.workers}
    translator = load_own_translator(run, options={**options, "batch_tokens": layout.batch * 100}).translator

    def run_ours(lines: Sequence[str], beam_size: int) -> list[str]:
        return [each.text for each in translator.translate(lines, beam_size=beam_size)]

    return run_ours


def build_auto(run: Path, layout: Layout, *, precision: str) -> Translate:
    """`translate decode` as it is: CTranslate2's search between our reading and writing, with its own batches."""
    import torch

    from translate.decoding.loading import load_translator

    torch.set_num_threads(layout.workers * layout.threads)
    options = {"engine": "ctranslate2", "precision": precision, "device": "cpu", "workers": layout.workers}
    translator = load_translator(run, options=options, token_scores=False).translator
    translators = {beam_size: translator.with_options(beam_size=beam_size) for beam_size in (1, 5)}

    def run_auto(lines: Sequence[str], beam_size: int) -> list[str]:
        return [each.text for each in translators[beam_size].translate_stream(lines)]

    return run_auto


def build_ctranslate2(
    run: Path, layout: Layout, *, compute_type: str, alone: bool = False, patience: int = 1
) -> Translate:
    """CTranslate2 as its users call it: its own search, sorting and batching.

    Args:
        alone: The input is tokenised before the time begins, and the output is left as subwords.
        patience: A beam search ends with this many times its size of finished hypotheses; "auto" has 2.
    """
    import ctranslate2

    from translate.data.tokenizer import load_tokenizers
    from translate.decoding.engines.ctranslate2_conversion import convert_model
    from translate.runs.run import open_run

    tokenizers = load_tokenizers(run / "tokenizer")
    engine = ctranslate2.Translator(
        str(convert_model(open_run(run).load_model(), checkpoint="best")),
        compute_type=compute_type,
        inter_threads=layout.workers,
        intra_threads=layout.threads,
    )

    tokenized: dict[int, list[list[str]]] = {}  # by the number of lines: the probe, or the whole

    def run_ctranslate2(lines: Sequence[str], beam_size: int) -> list[str]:
        pieces = tokenized.get(len(lines)) if alone else None
        if pieces is None:  # with `alone` in the turn for warming up
            sources = tokenizers.source.encode_lines(list(lines), num_threads=1)
            pieces = tokenized[len(lines)] = [tokenizers.source.pieces(ids) for ids in sources]
        results = engine.translate_batch(
            pieces, beam_size=beam_size, max_batch_size=layout.batch, patience=1 if beam_size == 1 else patience
        )
        if alone:
            return [" ".join(result.hypotheses[0]) for result in results]
        return [tokenizers.target.decode(tokenizers.target.parse(result.hypotheses[0])) for result in results]

    return run_ctranslate2


def build_huggingface(run: Path, layout: Layout) -> Translate:
    """`generate` of the exported model, sorted by length and batched, in inference mode."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from translate.data.batching import collate_sources
    from translate.data.tokenizer import PAD_ID, load_tokenizers
    from translate.exchange import export_run

    torch.set_num_threads(layout.threads)
    folder = Path(tempfile.mkdtemp()) / "exported"
    export_run(run, to="huggingface", output=folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizers = load_tokenizers(run / "tokenizer")

    def run_huggingface(lines: Sequence[str], beam_size: int) -> list[str]:
        def generate(batch: list[list[int]]) -> list[str]:
            torch.set_num_threads(layout.threads)
            ids = collate_sources(batch)
            with torch.inference_mode():
                found = model.generate(
                    ids,
                    attention_mask=(ids != PAD_ID).long(),
                    num_beams=beam_size,
                    max_new_tokens=2 * ids.shape[1] + 20,
                    max_length=None,
                )
            return [tokenizers.target.decode(row) for row in found.tolist()]

        return in_batches(tokenizers.source.encode_lines(list(lines), num_threads=1), layout, generate)

    return run_huggingface


def build_onnx(run: Path, layout: Layout) -> Translate:
    """The code of the documentation, with ONNX Runtime alone, on batches of sentences of similar length."""
    import onnxruntime

    from translate.data.tokenizer import load_tokenizers
    from translate.exchange import export_run

    folder = Path(tempfile.mkdtemp()) / "exported"
    export_run(run, to="onnx", output=folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = layout.threads
    page = (Path(__file__).parents[1] / "docs" / "exporting.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0].rpartition("print(")[0]
    names: dict[str, Any] = {"options": options}
    exec(code.replace('"mine-onnx"', repr(str(folder))).replace('.onnx")', '.onnx", options)'), names)
    source = load_tokenizers(run / "tokenizer").source

    def run_onnx(lines: Sequence[str], beam_size: int) -> list[str]:
        if beam_size > 1:
            raise NotImplementedError("its search is greedy; take --beam-sizes 1")
        sources = source.encode_lines(lines, num_threads=1)  # for the lengths only
        texts = {id(ids): line for ids, line in zip(sources, lines, strict=True)}
        return in_batches(sources, layout, lambda batch: names["translate"]([texts[id(ids)] for ids in batch]))

    return run_onnx


def in_batches(
    sources: list[list[int]], layout: Layout, translate: Callable[[list[list[int]]], list[str]]
) -> list[str]:
    """Batches of sentences of similar length, the longest first, over the workers; results in the old order."""
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    batches = [order[begin : begin + layout.batch] for begin in range(0, len(order), layout.batch)]
    results: dict[int, str] = {}
    with ThreadPoolExecutor(layout.workers) as executor:
        translated = executor.map(lambda batch: translate([sources[index] for index in batch]), batches)
        for batch, texts in zip(batches, translated, strict=True):
            results |= zip(batch, texts, strict=True)
    return [results[index] for index in range(len(sources))]


ENGINES: dict[str, tuple[Callable[..., Translate], dict[str, Any], Sequence[int]]] = {
    "auto fp32": (build_auto, {"precision": "fp32"}, (1,)),
    "auto int8": (build_auto, {"precision": "int8"}, (1,)),
    "ours fp32": (build_ours, {"precision": "fp32"}, (40, 80, 160)),
    "ours bf16": (build_ours, {"precision": "bf16"}, (40, 80, 160)),
    "ctranslate2 alone float32": (build_ctranslate2, {"compute_type": "float32", "alone": True}, (16, 32, 64, 128)),
    "ctranslate2 alone int8": (build_ctranslate2, {"compute_type": "int8", "alone": True}, (16, 32, 64, 128)),
    "ctranslate2 alone float32, patience 2": (
        build_ctranslate2,
        {"compute_type": "float32", "alone": True, "patience": 2},
        (16, 32, 64, 128),
    ),
    "ctranslate2 alone int8, patience 2": (
        build_ctranslate2,
        {"compute_type": "int8", "alone": True, "patience": 2},
        (16, 32, 64, 128),
    ),
    "ctranslate2 float32": (build_ctranslate2, {"compute_type": "float32"}, (16, 32, 64)),
    "ctranslate2 int8": (build_ctranslate2, {"compute_type": "int8"}, (16, 32, 64)),
    "huggingface fp32": (build_huggingface, {}, (32, 64)),
    "onnx fp32": (build_onnx, {}, (16, 32, 64)),
}


class Turn(NamedTuple):
    """What an engine answers after a turn."""

    seconds: float
    texts: list[str]
    peak_mib: float


def serve(
    name: str, run: Path, threads: int, beam_sizes: Sequence[int], probe: list[str], connection: Connection
) -> None:
    """An engine's process: find the fastest layout for each beam size, then translate when asked to."""
    build, options, batches = ENGINES[name]
    layouts = [Layout(threads, 1, batch) for batch in batches] + [Layout(1, threads, batches[-1])]
    best: dict[int, tuple[float, Layout, Translate]] = {}
    try:
        for layout in dict.fromkeys(layouts):  # with one thread, two are the same
            translate = build(run, layout, **options)
            for beam_size in beam_sizes:
                translate(probe, beam_size)
                seconds = timed(translate, probe, beam_size).seconds
                if beam_size not in best or seconds < best[beam_size][0]:
                    best[beam_size] = (seconds, layout, translate)
    except (ImportError, NotImplementedError, InputError) as error:
        connection.send(f"left out: {error}")
        return
    connection.send({beam_size: layout for beam_size, (_, layout, _) in best.items()})
    while (job := connection.recv()) is not None:
        lines, beam_size = job
        connection.send(timed(best[beam_size][2], lines, beam_size))


def timed(translate: Translate, lines: Sequence[str], beam_size: int) -> Turn:
    """One turn."""
    begin = time.perf_counter()
    texts = translate(lines, beam_size)
    seconds = time.perf_counter() - begin
    return Turn(seconds, texts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beam-sizes", type=int, nargs="*", default=[1, 5])
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    arguments = parser.parse_args()
    import sacrebleu

    from translate.data.text import read_lines
    from translate.data.tokenizer import load_tokenizers

    lines, references = read_lines(arguments.source), read_lines(arguments.reference)
    target = load_tokenizers(arguments.run / "tokenizer").target
    probe = lines[:: max(1, len(lines) // 250)]
    settings = (arguments.run, arguments.threads, arguments.beam_sizes, probe)
    engines = start_engines(serve, arguments.engines, *settings)
    for beam_size in arguments.beam_sizes:
        turns: dict[str, list[Turn]] = {name: [] for name in engines}
        for engine in engines.values():  # once before the time begins
            engine.connection.send((lines, beam_size))
            engine.connection.recv()
        for _ in range(arguments.repeats):
            for name, engine in engines.items():
                engine.connection.send((lines, beam_size))
                turns[name].append(engine.connection.recv())
        print(f"\nbeam {beam_size}, {len(lines)} lines, {arguments.threads} threads, median of {arguments.repeats}")
        print(f"{'engine':<39}{'lines/s':>9}{'(min':>8}{'max)':>8}{'tokens/s':>10}{'BLEU':>7}{'MiB':>7}  layout")
        rates = {name: [len(lines) / turn.seconds for turn in done] for name, done in turns.items()}
        for name, done in turns.items():
            ordered = sorted(rates[name])
            texts = done[-1].texts
            if " alone " in name:
                texts = [target.decode(target.parse(text.split())) for text in texts]
            num_tokens = sum(len(target.encode(text)) + 1 for text in texts)
            bleu = sacrebleu.corpus_bleu(texts, [references]).score
            median = statistics.median(ordered)
            layout = engines[name].answer[beam_size]
            print(
                f"{name:<39}{median:9.1f}{ordered[0]:8.1f}{ordered[-1]:8.1f}{median * num_tokens / len(lines):10.0f}"
                f"{bleu:7.2f}{done[-1].peak_mib:7.0f}  {layout.workers} x {layout.threads}, {layout.batch}"
            )
        print_ratios(rates)
    stop_engines(engines)


if __name__ == "__main__":
    main()
