"""Draw docs/architecture.svg from the table below: `python docs/draw.py`. A test compares the table with the files."""

import html
from pathlib import Path

# A room a layer, from the top; each file with its one idea.
TABLE = """
7 cli/
    cli/running.py: train, eval
    cli/checking.py: check
    cli/verifying.py: verify
    cli/showing.py: show …
    cli/decoding.py: decode, score, export
    cli/decoding_options.py: a flag a setting
    cli/sharding.py: decode in shards
    cli/wishes.py: prefixes, terms, …
    cli/tokenizers.py: tokenizer …
    cli/configs.py: config …
    cli/options.py: shared flags
    cli/lines.py: lines in and out
    cli/failures.py: errors, exit codes
5 training/
    training/train.py: from config to run
    training/assembly.py: model and stepper
    training/preparation.py: before the first step
    training/reading.py: what is read
    training/batch_size.py: tokens a batch
    training/batch_trials.py: what memory holds
    training/available_memory.py: what is left
    training/loop.py: the trainer
    training/place.py: own GPU, threads
    training/distributed.py: processes agree
    training/parallel.py: DDP, FSDP2
    training/step.py: one step
    training/pieces.py: a step, cut
    training/gradients.py: of all pieces
    training/workers.py: pieces at once
    training/staging.py: to the device
    training/precision.py: bf16, fp16, TF32
    training/compilation.py: torch.compile
    training/loss.py: sum and count
    training/schedule.py: rate of a step
    training/optimizer.py: Adam, AdamW
    training/average.py: moving average
    training/validation.py: loss and BLEU
    training/checkpoints.py: save, restore
    training/resuming.py: may it go on?
    training/circumstances.py: what else matters
    training/progress.py: where it stands
    training/signals.py: stop, save, leave
    training/tracking.py: what people see
    training/pace.py: speed, time left
    training/profiling.py: some steps watched
    training/profile_table.py: a profile in words
    training/metrics_log.py: metrics, vouched for
    training/check.py: look before training
    training/check_corpora.py: suspicious pairs, leaks
    training/check_suspicions.py: names, thresholds
    training/check_tokens.py: vocabulary and text
    training/check_report.py: findings as data
    training/rehearsal.py: real steps, speed
    training/rehearsal_memory.py: peak memory
5 export/
    export/export.py: a folder for others
    export/ctranslate2.py: weights for CTranslate2
    export/huggingface.py: weights for MarianMT
    export/marian_tokenizer.py: its tokenizer
    export/agreement.py: the same numbers?
    export/conversion.py: kept in the run
    export/engine.py: search by CTranslate2
    export/folder.py: whole or not at all
5 visualise/
    visualise/attention.py: who looks where
    visualise/capture.py: weights as used
    visualise/sentences.py: tokens and words
    visualise/masks.py: visible or not
    visualise/positions.py: tables, waves
    visualise/curves.py: a run over time
    visualise/embeddings.py: neighbours, a map
    visualise/alignments.py: word to word
    visualise/figure.py: a sheet of panels
    visualise/panels.py: parts of a picture
    visualise/page.py: one HTML file
    visualise/plots.py: by matplotlib
    visualise/saving.py: where, which format
4 evaluation/
    evaluation/evaluate.py: translate, score
    evaluation/metrics.py: BLEU, chrF, TER
    evaluation/testsets.py: a run's test sets
    evaluation/report.py: what is kept
3 decoding/
    decoding/translator.py: text in, text out
    decoding/postprocessing.py: from search to text
    decoding/loading.py: from a run
    decoding/requests.py: in and out, typed
    decoding/plans.py: settings to a plan
    decoding/windows.py: bounded read-ahead
    decoding/splitting.py: long text in pieces
    decoding/limits.py: refuse, cut, join
    decoding/workers.py: sentences to threads
    decoding/sharding.py: a file over processes
    decoding/parts.py: finished blocks
    decoding/processes.py: as torchrun starts them
    decoding/formats.py: lines that come out
    decoding/search.py: the loop, a full batch
    decoding/beam.py: a pure step
    decoding/scoring.py: penalties, bounds
    decoding/topk.py: the largest, fast
    decoding/models.py: as search sees it
    decoding/combined.py: ensemble, contrast
    decoding/rules.py: what is not allowed
    decoding/constraints.py: required phrases
    decoding/phrases.py: how far each has got
    decoding/terminology.py: terms of a file
    decoding/sampling.py: seeded by line
    decoding/diverse.py: groups of a beam
    decoding/mbr.py: minimum Bayes risk
    decoding/forced.py: given translations
    decoding/alignment.py: which word from which
    decoding/words.py: subwords to words
    decoding/flags.py: signs of failure
    decoding/conditions.py: what is counted, said
    decoding/records.py: all that is known
    decoding/shortlists.py: made for a run
2 run/
    run/directory.py: paths of a run
    run/creation.py: a new run
    run/loading.py: open and load
    run/description.py: format, versions
    run/checkpoints.py: last, previous, best
    run/weights.py: names, shapes, what fits
    run/tensors.py: sealed tensors
    run/header.py: what a file claims
    run/seal.py: checksum inside a file
    run/checksums.py: of a folder
    run/files.py: durable writing
    run/safety.py: links, pipes, sizes
    run/lock.py: one training at a time
    run/soundness.py: what each file must be
    run/verify.py: every file's report
1 model/
    model/transformer.py: encoder, decoder
    model/layers.py: sub-layers, add & norm
    model/attention.py: many heads
    model/spans.py: attention, packed
    model/packing.py: rows without padding
    model/dropout.py: seeded, cheap
    model/positions.py: four kinds
    model/masks.py: visible or not
    model/cache.py: keys and values
    model/projection.py: products, int8 too
    model/initialization.py: first weights
    model/classifier.py: a head of labels
    model/device.py: where, how exact
    model/out_of_memory.py: memory refused, told
1 data/
    data/corpora.py: files to pairs
    data/lines.py: lines from files
    data/tables.py: datasets to pairs
    data/rows.py: JSON and CSV checked
    data/texts.py: listed or mapped
    data/encoded.py: ids, mapped
    data/spill.py: unnamed files
    data/tokenizer.py: text and ids
    data/tokenizer_training.py: SentencePiece
    data/sampling.py: other segmentations
    data/lexicon.py: word by word
    data/shortlist.py: likely words
    data/filtering.py: what is left out
    data/batching.py: padded batches
    data/epochs.py: what is seen when
    data/prefetch.py: made ahead
    data/cache.py: kept for the next start
    data/encoding.py: text to ids
    data/drawing.py: drawn beside training
    data/drawing_worker.py: by such a process
    data/streaming.py: too large to keep
    data/segments.py: streams side by side
    data/streamed_batches.py: segment by segment
    data/sharing.py: ids, exchanged
1 data/inspection/
    data/inspection/sample.py: evenly spaced runs
    data/inspection/repetition.py: duplicates, leakage
    data/inspection/lengths.py: unlikely lengths
    data/inspection/characters.py: broken characters
    data/inspection/languages.py: wrong language
    data/inspection/shifts.py: shifted lines
    data/inspection/spelling.py: bytes, unused entries
0 config/
    config/sections.py: every knob
    config/decoding.py: those of search
    config/corpora.py: kinds of corpora
    config/section.py: strict, frozen
    config/load.py: files, overrides
    config/yaml.py: YAML 1.2
    config/paths.py: files found
    config/explain.py: errors
    config/presets.py: by name
    config/show.py: as text
    config/advice.py: settings that fail
    config/advice_on_data.py: … with these data
    errors.py: how a command fails
    memory.py: kept, given back
    versions.py: of what computes
    torchrun.py: which process
"""
TITLE = "The layers of translate, from the commands at the top to the config at the bottom; imports go downwards only"
STYLE = """<style>
  svg { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; background: #ffffff; }
  .room { fill: #eef2f7; stroke: #9aa9bb; }
  .box { fill: #ffffff; stroke: #33506f; }
  .layer { font-size: 20px; font-weight: 700; fill: #33506f; }
  .name { font-size: 15px; font-weight: 600; fill: #1d2733; }
  .file { font-size: 13px; font-weight: 600; fill: #0b3d75; }
  .what { font-size: 12px; fill: #3a4654; }
  .arrow { stroke: #33506f; stroke-width: 2; fill: none; }
</style>"""
COLUMNS, LEFT, TOP = 6, 156, 20
BOX_WIDTH, BOX_HEIGHT, STEP_X, STEP_Y, MARGIN, GAP = 170, 44, 178, 52, 14, 20


def draw(table: str) -> str:
    """The picture of a table of rooms and files."""
    rooms: list[tuple[str, str, list[tuple[str, str]]]] = []
    for line in table.strip().splitlines():
        if line.startswith(" "):
            file, _, what = line.strip().partition(": ")
            rooms[-1][2].append((file, what))
        else:
            layer, _, name = line.partition(" ")
            rooms.append((layer, name, []))
    parts, y = [], TOP
    for number, (layer, name, files) in enumerate(rooms):
        height = -(-len(files) // COLUMNS) * STEP_Y - (STEP_Y - BOX_HEIGHT) + 2 * MARGIN
        if number and rooms[number - 1][0] != layer:
            parts.append(f'<path class="arrow" d="M 76 {y - GAP + 2} v 14 m -5 -6 l 5 6 l 5 -6"/>')
        parts.append(f'<rect class="room" x="10" y="{y}" width="1220" height="{height}" rx="8"/>')
        middle = y + height // 2 + 6
        parts.append(f'<text class="layer" x="26" y="{middle}">{layer}</text>')
        *outer, inner = name.rstrip("/").split("/")  # a folder in a folder stands below it
        for above, folder in enumerate([inner, *outer]):
            parts.append(f'<text class="name" x="48" y="{middle - 20 * above}">{folder}/</text>')
        for place, (file, what) in enumerate(files):
            left, top = LEFT + place % COLUMNS * STEP_X, y + MARGIN + place // COLUMNS * STEP_Y
            parts.append(
                f'<a href="../translate/{file}">'
                f'<rect class="box" x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
                f'<text class="file" x="{left + 9}" y="{top + 18}">{Path(file).name}</text>'
                f'<text class="what" x="{left + 9}" y="{top + 35}">{html.escape(what)}</text></a>'
            )
        y += height + GAP
    height = y - GAP + 16
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1240 {height}" width="1240" height="{height}"'
        ' role="img" aria-labelledby="title">'
    )
    return "\n".join([opening, f'<title id="title">{TITLE}</title>', STYLE, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("architecture.svg").write_text(draw(TABLE), encoding="utf-8")
