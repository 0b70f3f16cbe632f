"""Suggestions for an unknown key, option, preset, file or choice: "did you mean …?"."""

import contextlib
import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

_OTHER_NAMES = {  # names in fairseq, Marian, JoeyNMT, OpenNMT and papers that share no word with ours
    "accumulate_batches": "update_freq optimizer_delay batch_multiplier accum_count gradient_accumulation_steps",
    "add_characters": "extend extend_vocabulary resize_embeddings",
    "batch_tokens": "batch_size max_tokens mini_batch mini_batch_words",
    "d_ff": "ff_size ffn_dim ffn_embed_dim dim_ffn transformer_dim_ffn transformer_ff feed_forward",
    "d_model": "hidden_size hidden_dim embed_dim embedding_dim dim_emb rnn_size dim",
    "length_penalty": "lenpen alpha beam_alpha normalize",
    "initialize_from": "finetune_from_model pretrained_model load_model train_from resume_from warm_start",
    "learning_rate": "lr rate learn_rate",
    "max_gradient_norm": "clip_norm clip_grad_norm grad_clip max_grad_norm",
    "max_steps": "updates max_update max_updates train_steps after_batches iterations",
    "num_decoder_layers": "dec_depth depth",
    "num_encoder_layers": "enc_depth depth",
    "patience": "early_stopping",
    "precision": "fp16 amp",
    "save_every": "save_freq save_interval",
    "schedule": "lr_scheduler scheduler scheduling",
    "trackers": "tensorboard use_tensorboard wandb wandb_project mlflow report_to",
    "validation_also": "evaluate_also",
    "validate_every": "valid_freq validation_freq validate_interval eval_interval",
    "vocab_size": "voc_limit dim_vocabs num_merges",
    "warmup_steps": "lr_warmup warmup_updates learning_rate_warmup",
}


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """The known names that a wrong one probably means: a name in another toolkit, a part of a name, or a misspelling.

    Args:
        name: Such as `lr`, `--beam` or `cosin`; dashes count as underscores, and case does not count.
        cutoff: Least similarity of a misspelling, 0 to 1.
    """
    plain = {each: _plain(each) for each in known}
    word = _plain(name)
    others = [own for own, names in _OTHER_NAMES.items() if word in names.split()]
    parts = [each for each in plain.values() if set(word.split("_")) <= set(each.split("_"))]
    begins = [each for each in parts if each.startswith(word)]
    for meant in ([word], others, begins, parts, difflib.get_close_matches(word, plain.values(), n=1, cutoff=cutoff)):
        if found := [each for each in plain if plain[each] in meant]:
            return found[:3]
    return []


def nearest_paths(path: Path, *folders: Path) -> list[str]:
    """Paths with names similar to a missing one's, in its folder or in other folders."""
    found = []
    for folder in dict.fromkeys([path.parent, *folders]):
        with contextlib.suppress(OSError, ValueError):
            names = sorted(os.listdir(folder))
            like = difflib.get_close_matches(path.name, names, n=3, cutoff=0.75)
            like += [name for name in names if Path(name).stem == path.name]
            found += [str(folder / name) for name in dict.fromkeys(like) if folder / name != path]  # a dangling link
    return found[:3]


def did_you_mean(names: Sequence[str]) -> str:
    """The end of a message that asks whether one of the names was meant; empty if there is none."""
    return f"; did you mean {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}?" if names else ""


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "_")
