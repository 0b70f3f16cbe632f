"""How much of the noise in a corpus `translate clean` finds, how much else it removes, and what that does to BLEU.

    python benchmarks/noise.py DIR OUT
    python benchmarks/noise.py DIR OUT --train --seeds 1 2

DIR contains Multi30k as plain text: train.de, train.en, val.de, val.en, test_2016_flickr.de and test_2016_flickr.en.
The first line writes OUT/noisy with 5 % of noise, an eighth of each kind, and its truth, OUT/noisy/truth.tsv; the same
seed gives the same bytes. It runs `translate clean` on that into OUT/cleaned, and prints precision and recall of each
kind. Five kinds take the place of pairs, and three are inserted:

- misaligned: blocks of 30 pairs, whose targets are one or two lines further on, or shuffled
- wrong language: one side is a line of another pair in the other side's language, or French, Spanish or Dutch
- copies: the target is the source, or the source is the target
- lengths: the target ends after 30 to 60 % of its words, or the target of another pair follows it
- encodings: UTF-8 of the German side was read as Windows-1252 or Latin-1, once or twice, or letters were lost (U+FFFD)
- near-duplicates: an earlier pair with other case, punctuation, quotation marks or spaces
- leaked: a pair of the test set, half of them changed like near-duplicates
- boilerplate: six lines of web pages and subtitles, each next to thirty lines that translate something else

With --train, the preset multi30k-fast is then trained on the clean, the noisy and the cleaned text, one training after
the other. It is scored on the test sentences that are not leaked. What is finished is kept, so repeat an interrupted
command.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

NOISE, BLOCK = 0.05, 30
KINDS = {  # and the rules that are meant to find each
    "misaligned": ("shifted", "unrelated"),
    "wrong language": ("source_like_target", "target_like_source", "source_like_neither", "target_like_neither"),
    "copies": ("equal",),
    "lengths": ("empty", "unlikely_length"),
    "encodings": ("mojibake", "replacement", "control", "invisible"),
    "near-duplicates": ("repeated", "near_repeated"),
    "leaked": ("leaked",),
    "boilerplate": ("boilerplate",),
}
BOILERPLATE = {
    "de": ["Alle Rechte vorbehalten.", "Klicken Sie hier, um mehr zu erfahren.", "Weiter zur nächsten Seite"],
    "en": ["Subtitles by the community", "Sign up for our newsletter today!", "This page was last updated on Monday."],
}
# Who, does what, where: 6 × 6 × 6 sentences of each language.
FOREIGN = [
    (
        ["Un homme", "Une jeune femme", "Deux enfants", "Un vieux monsieur", "Des ouvriers", "Une petite fille"],
        ["regarde les passants", "joue de la guitare", "attend le bus", "mange une glace", "prend une photo", "chante"],
        ["dans la rue.", "devant l'église.", "au bord de la mer.", "près du marché.", "sur un banc.", "sous la pluie."],
    ),
    (
        ["Un hombre", "Una mujer joven", "Dos niños", "Un perro negro", "Los obreros", "Una niña pequeña"],
        ["mira a la gente", "toca la guitarra", "espera el autobús", "come un helado", "saca una foto", "corre"],
        ["en la calle.", "delante de la iglesia.", "a la orilla del mar.", "cerca del mercado.", "hoy.", "en el agua."],
    ),
    (
        ["Een man", "Een jonge vrouw", "Twee kinderen", "Een oude heer", "De arbeiders", "Een klein meisje"],
        ["kijkt naar de mensen", "speelt gitaar", "wacht op de bus", "eet een ijsje", "maakt een foto", "zingt"],
        ["op straat.", "voor de kerk.", "aan het strand.", "bij de markt.", "op een bankje.", "in de regen."],
    ),
]
CONFIG = """extends: multi30k-fast
data:
  root: {root}
  train: [{{kind: text, source: {source}, target: {target}}}]
  validation: {{kind: text, source: val.de, target: val.en}}
  test:
    test_2016_flickr: {{kind: text, source: test_2016_flickr.de, target: test_2016_flickr.en}}
    not_leaked: {{kind: text, source: {noisy}/test.de, target: {noisy}/test.en}}
"""


class Pair(NamedTuple):
    """A pair of the noisy corpus."""

    source: str
    target: str
    kind: str  # of noise; empty: none
    line: int  # of the original, from 1; 0: it is inserted


def main() -> None:
    """Plant, clean and count; and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the noise")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="of the trainings")
    arguments = parser.parse_args()
    noisy, cleaned = arguments.out / "noisy", arguments.out / "cleaned"
    pairs = write_noisy(arguments.folder.resolve(), noisy.resolve(), arguments.seed)
    if not cleaned.exists():
        translate("clean", str(noisy / "config.yaml"), str(cleaned))
    report(pairs, cleaned / "removed.tsv")
    if arguments.train:
        configs = {"clean": noisy / "clean.yaml", "noisy": noisy / "config.yaml", "cleaned": cleaned / "config.yaml"}
        train(configs, arguments.out, arguments.seeds)


def translate(*command: str) -> str:
    """Run a command, and return what it prints; its messages are shown."""
    return subprocess.run([sys.executable, "-m", "translate", *command], check=True, text=True, stdout=-1).stdout


def read_lines(path: Path) -> list[str]:
    """The lines of a file, split at newlines alone."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines, with a newline after each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def write_noisy(folder: Path, noisy: Path, seed: int) -> list[Pair]:
    """Write the noisy corpus, its truth, the test sentences that are not leaked, and two configs."""
    noisy.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.PCG64(seed))
    clean = list(zip(read_lines(folder / "train.de"), read_lines(folder / "train.en"), strict=True))
    names = ("test_2016_flickr.de", "test_2016_flickr.en")
    test = list(zip(*(read_lines(folder / name) for name in names), strict=True))
    pairs, leaked = plant(clean, test, generator)
    rest = [pair for number, pair in enumerate(test) if number not in leaked]
    for name, kept in (("train", [pair[:2] for pair in pairs]), ("test", rest)):
        for language, lines in zip(("de", "en"), zip(*kept, strict=True), strict=True):
            write_lines(noisy / f"{name}.{language}", list(lines))
    write_lines(noisy / "truth.tsv", [f"{pair.kind}\t{pair.line}" for pair in pairs])
    for name, text in (("clean", folder), ("config", noisy)):
        files = {"source": text / "train.de", "target": text / "train.en"}
        (noisy / f"{name}.yaml").write_text(CONFIG.format(root=folder, noisy=noisy, **files), encoding="utf-8")
    return pairs


def plant(
    clean: list[tuple[str, str]], test: list[tuple[str, str]], generator: np.random.Generator
) -> tuple[list[Pair], set[int]]:
    """The pairs with noise of all kinds, and the positions of the test pairs that are leaked."""
    size = round(NOISE * len(clean) / len(KINDS))
    pairs = [Pair(*pair, "", number) for number, pair in enumerate(clean, start=1)]
    starts = generator.permutation(len(clean) // BLOCK)[: round(size / BLOCK)] * BLOCK
    for count, start in enumerate(starts.tolist()):
        shift, block = count % 3, [pair.target for pair in pairs[start : start + BLOCK]]
        moved = np.roll(block, -shift).tolist() if shift else generator.permutation(block).tolist()
        for number, target in enumerate(moved, start=start):
            if target != pairs[number].target:
                pairs[number] = pairs[number]._replace(target=target, kind="misaligned")
    free = [number for number in generator.permutation(len(pairs)).tolist() if not pairs[number].kind]
    lossy = [number for number in free if not pairs[number].source.isascii()][:size]
    for number in lossy:
        source = lose_letters(pairs[number].source, generator)
        pairs[number] = pairs[number]._replace(source=source, kind="encodings")
    others = iter([number for number in free if not pairs[number].kind])
    for kind in ("wrong language", "copies", "lengths"):
        for _ in range(size):
            number = next(others)
            pairs[number] = spoil(pairs[number], clean[next(others)], kind, generator)
    inserted: list[tuple[int, Pair]] = []
    for _ in range(size):
        number = next(others)
        place = int(generator.integers(number + 1, len(pairs) + 1))
        inserted.append((place, Pair(*vary(clean[number], generator), "near-duplicates", 0)))
    leaked = generator.permutation(len(test))[:size].tolist()
    for count, number in enumerate(leaked):
        place, pair = int(generator.integers(len(pairs))), test[number]
        inserted.append((place, Pair(*(vary(pair, generator) if count % 2 else pair), "leaked", 0)))
    for count in range(size):
        place, (source, target) = int(generator.integers(len(pairs))), clean[next(others)]
        lines = BOILERPLATE["de"] + BOILERPLATE["en"]
        line = lines[count % len(lines)]
        source, target = (line, target) if line in BOILERPLATE["de"] else (source, line)
        inserted.append((place, Pair(source, target, "boilerplate", 0)))
    for place, pair in sorted(inserted, key=lambda each: each[0], reverse=True):
        pairs.insert(place, pair)
    return pairs, {*leaked}


def spoil(pair: Pair, other: tuple[str, str], kind: str, generator: np.random.Generator) -> Pair:
    """A pair with noise of one kind, for which `other` is another pair."""
    source, target, chance = pair.source, pair.target, generator.random()
    words = target.split()
    if kind == "copies":
        source, target = (source, source) if chance < 0.5 else (target, target)
    elif kind == "lengths" and chance < 0.5 and len(words) > 3:
        target = " ".join(words[: max(1, round(len(words) * generator.uniform(0.3, 0.6)))])
    elif kind == "lengths":
        target = f"{target} {other[1]}"
    else:
        foreign = FOREIGN[int(generator.integers(len(FOREIGN)))]
        third = " ".join(part[int(generator.integers(len(part)))] for part in foreign)
        side = int(generator.integers(2))
        wrong = other[1 - side] if chance < 0.5 else third
        source, target = (wrong, target) if side == 0 else (source, wrong)
    return Pair(source, target, kind, pair.line)


def lose_letters(line: str, generator: np.random.Generator) -> str:
    """A line with letters beyond ASCII whose encoding was mistaken."""
    kind = int(generator.integers(4))
    if kind == 0:
        return "".join(letter if letter.isascii() else "\ufffd" for letter in line)
    encoding = "latin-1" if kind == 1 else "cp1252"
    for _ in range(2 if kind == 3 else 1):
        line = line.encode().decode(encoding, "replace")
    return line


def vary(pair: tuple[str, str], generator: np.random.Generator) -> tuple[str, str]:
    """A near-duplicate: another way to write both sides of a pair."""
    ways = [str.upper, str.lower, lambda line: line.rstrip(".") + "!", lambda line: line.replace(",", "").rstrip(".")]
    ways += [lambda line: f"„{line}“", lambda line: line.replace(" ", "  "), lambda line: f"- {line}"]
    while True:
        changed = tuple(ways[int(generator.integers(len(ways)))](line) for line in pair)
        if changed != pair:
            return changed[0], changed[1]


def report(pairs: list[Pair], removed: Path) -> None:
    """Print precision and recall of each kind, and which rules removed pairs that are in the original corpus."""
    rows = [line.split("\t") for line in read_lines(removed)[1:]]
    rules = {int(number) - 1: rule for _, number, rule, *_ in rows}
    originals = Counter(rule for number, rule in rules.items() if not pairs[number].kind)
    print("| noise | injected | removed | recall | removed by rules for it | of these, not injected | precision |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, own in KINDS.items():
        planted = [number for number, pair in enumerate(pairs) if pair.kind == kind]
        num_removed = sum(number in rules for number in planted)
        num_by_rules = sum(rule in own for rule in rules.values())
        num_original = sum(originals[rule] for rule in own)
        recall = f"{num_removed / len(planted):.1%}" if planted else "-"
        precision = f"{1 - num_original / num_by_rules:.1%}" if num_by_rules else "-"
        counts = f"{num_by_rules:,} | {num_original:,}"
        print(f"| {kind} | {len(planted):,} | {num_removed:,} | {recall} | {counts} | {precision} |")
    num_clean = sum(not pair.kind for pair in pairs)
    by_rule = ", ".join(f"{count} {rule}" for rule, count in originals.most_common())
    print(f"\n{originals.total():,} of {num_clean:,} original pairs removed: {by_rule}")


def train(configs: dict[str, Path], out: Path, seeds: list[int]) -> None:
    """Train on each text with each seed, and print the scores."""
    scores: dict[str, list[float]] = {}
    for seed in seeds:
        for name, config in configs.items():
            run, found = out / f"run-{name}-{seed}", out / f"run-{name}-{seed}.json"
            if not found.exists():
                if (run / "run.json").exists():
                    translate("train", str(run), "--resume")
                else:
                    translate("train", str(config), "--run", str(run), "--ignore-errors", f"training.seed={seed}")
                found.write_text(translate("eval", str(run), "--set", "not_leaked", "--json"), encoding="utf-8")
            (evaluation,) = json.loads(found.read_text(encoding="utf-8"))["evaluations"]
            scores.setdefault(name, []).append(evaluation["metrics"][0]["score"])
            print(f"{name}, seed {seed}: BLEU {scores[name][-1]:.2f}", flush=True)
    for name, each in scores.items():
        print(f"| {name} | {' | '.join(f'{score:.2f}' for score in each)} | {np.mean(each):.2f} |")


if __name__ == "__main__":
    main()
