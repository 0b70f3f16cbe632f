"""Phrases that a translation must contain: how they are spelled, tracked in a hypothesis, and searched for.

A translation is read from left to right. Where missing phrases occur, the longest of them is taken, and reading
continues after it: of "the" and "the dog", "the dog" satisfies only the second. A phrase occurs only where a word ends
after it: the next token begins a word, or there is none yet. So a phrase that ends with the newest token is missing
again if the next token continues its last word. Letters of scripts without spaces are words of their own, because only
a dictionary could tell where words end there.
"""

import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from translate.data.tokenizer import BOS_ID, BYTE_PIECE, EOS_ID, PAD_ID, SPACE, UNK_ID, Tokenizer
from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores, largest, select_best
from translate.errors import InputError
from translate.placeholders import match_placeholders

# Thai, Lao, Myanmar, Khmer, kana and Han, with their extensions.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
_MOST_PLACEHOLDERS, _MOST_SUBWORDS = 10, 100  # required of a translation as placeholders
_NO_TOKEN = -1  # after the end of a hypothesis
_WORD_END, _ANYTHING = -2, -3  # after a phrase: its last word ends there, and anything may follow


class WordTables(NamedTuple):
    """Where words begin and end, by target token."""

    begins_word: Bool[Tensor, " vocab"]  # the token does not continue the word before it
    leaves_word_open: Bool[Tensor, " vocab"]  # the next token may continue the word
    within_sentence: Int[Tensor, " vocab"]  # the id of the same piece without `▁`, which some scripts have only there


@functools.lru_cache(maxsize=4)
def build_word_tables(tokenizer: Tokenizer) -> WordTables:
    """The tables of a target vocabulary.

    A piece begins a word if its first character is neither a mark nor `is_word_character`: `▁` for a space, or
    punctuation, as the `'s` in "dog's". A piece leaves a word open if its last character is one: `▁dog`, but not `.`.
    The special symbols begin a word and leave none open. A piece of byte fallback counts as its character if that is
    ASCII, and otherwise as a letter; after it a word is always open.
    """
    begins_word, leaves_word_open = [], []
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    for token, piece in enumerate(pieces):
        is_special = token in (PAD_ID, UNK_ID, BOS_ID, EOS_ID)
        byte = BYTE_PIECE.fullmatch(piece)
        first = chr(int(byte[1], 16)) if byte else piece[:1]
        continues = is_word_character(first) or is_mark(first) or (byte is not None and not first.isascii())
        begins_word.append(is_special or piece.startswith(SPACE) or not continues)
        leaves_word_open.append(not is_special and (byte is not None or is_word_character(piece[-1])))
    unspaced = {piece: token for token, piece in enumerate(pieces) if _UNSPACED.match(piece)}
    within_sentence = [unspaced.get(piece.removeprefix(SPACE), token) for token, piece in enumerate(pieces)]
    return WordTables(*map(torch.tensor, (begins_word, leaves_word_open, within_sentence)))


def is_word_character(character: str) -> bool:
    """Whether a character may continue a word: it is a digit, or a letter or mark of a script with spaces."""
    kind = unicodedata.category(character)[0]
    return kind == "N" or (kind in ("L", "M") and not _UNSPACED.match(character))


def is_mark(character: str) -> bool:
    """Whether a character is a mark on the letter before it."""
    return unicodedata.category(character)[0] == "M"


def encode_phrase(tokenizer: Tokenizer, text: str, *, is_prefix: bool = False, place: str = "") -> list[int]:
    """The ids that spell a phrase in a translation, as separate words: "dog" begins with the space before it.

    A phrase that begins in a script without spaces has none before it, as within a sentence.

    Args:
        is_prefix: The phrase is at the beginning of the translation.
        place: Where the phrase was given, for errors, such as "line 3: ".

    Raises:
        InputError: The phrase has no text, or the vocabulary cannot spell it.
    """
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"{place}the phrase {text!r} is empty; name a word, or leave it out")
    if UNK_ID in ids:
        unknown = [character for character in dict.fromkeys(text) if UNK_ID in tokenizer.encode(character)] or [text]
        spelt = ", ".join(map(repr, unknown))
        raise InputError(f"{place}the phrase {text!r}: the target vocabulary cannot spell {spelt}")
    if not is_prefix and _UNSPACED.match(text.lstrip()):
        comma, within = (tokenizer.encode(f",{after}") for after in ("", text.strip()))
        if within[: len(comma)] == comma:
            return within[len(comma) :]
    return ids


def encode_forbidden(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    """The ids that spell a phrase, as in `encode_phrase`; if it has no spaces, also each subword that contains it."""
    ids = encode_phrase(tokenizer, text)
    spelled = tokenizer.normalize([text])[0].strip(SPACE)
    if not _UNSPACED.fullmatch(spelled):
        return [ids]
    return [ids, *([token] for token, piece in enumerate(tokenizer.all_pieces) if spelled in piece and [token] != ids)]


def encode_placeholders(tokenizer: Tokenizer, source: str) -> list[list[int]]:
    """The ids that spell each placeholder of a source, within a word or after a space as there.

    Empty if the vocabulary cannot spell one, if they are many or long, for which a search would take minutes and rarely
    help, or if the source is a message of ICU, whose parts have an order.
    """
    matches, comma, spelled = match_placeholders(source), tokenizer.encode(","), list[list[int]]()
    for match in matches if len(matches) <= _MOST_PLACEHOLDERS else ():
        ids = tokenizer.encode(match[0])
        is_within = match.start() > 0 and not source[match.start() - 1].isspace()
        if is_within and (within := tokenizer.encode(f",{match[0]}"))[: len(comma)] == comma:
            ids = within[len(comma) :]
        if tokenizer.pieces(ids[:1]) == [SPACE]:  # which any word before it may have
            ids = ids[1:]
        if not ids or UNK_ID in ids or match.lastgroup == "message":
            return []
        spelled.append(ids)
    return spelled if sum(map(len, spelled)) <= _MOST_SUBWORDS else []


def unsatisfied_phrases(ids: Sequence[int], phrases: Sequence[Sequence[int]], *, words: WordTables) -> list[int]:
    """The places in `phrases` of the required phrases that a translation does not contain.

    If a phrase is required several times, the last entries are reported.

    Args:
        ids: The translation, without the end symbol; its end is the end of a word.
    """
    tokens, lengths = torch.tensor([[[BOS_ID, *ids]]]), torch.tensor([len(ids)])
    progress = find_progress(tokens, lengths, build_table([phrases]), words=words)
    order = sorted(range(len(phrases)), key=lambda place: -len(phrases[place]))  # as in the table
    return sorted(order[number] for number in progress.is_missing[0, 0].nonzero()[:, 0].tolist())


def build_table(phrases: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "batch phrases longest"]:
    """The phrases of each sentence, the longest first: the ids of each, then _WORD_END, then _ANYTHING."""
    num_phrases = max(map(len, phrases), default=0)
    longest = max((len(phrase) for sentence in phrases for phrase in sentence), default=0)
    table = torch.full((len(phrases), num_phrases, longest + 1), _ANYTHING)
    for sentence, listed in enumerate(phrases):
        for number, phrase in enumerate(sorted(listed, key=lambda phrase: -len(phrase))):
            table[sentence, number, : len(phrase) + 1] = torch.tensor([*phrase, _WORD_END])
    return table


class PhraseProgress(NamedTuple):
    """Which of its sentence's phrases a hypothesis contains."""

    num_satisfied: Int[Tensor, "batch beam"]  # required tokens, including begun phrases and word ends
    is_missing: Bool[Tensor, "batch beam phrases"]
    num_begun: Int[Tensor, "batch beam phrases"]  # tokens of a missing phrase that the hypothesis ends with


def find_progress(
    ids: Int[Tensor, "batch beam capacity"],
    lengths: Int[Tensor, " batch"],
    table: Int[Tensor, "batch phrases longest"],
    *,
    words: WordTables,
) -> PhraseProgress:
    """Which of its sentence's phrases each hypothesis contains: a pure function of its tokens.

    A phrase counts as many as it has tokens, and the end of its last word counts as one more as soon as the next token
    confirms it: a hypothesis that has not paid for that yet must not crowd out those that have. A started phrase counts
    its tokens so far, instead of the complete phrases inside it, if those have fewer. Once abandoned, it counts for
    nothing.

    Args:
        ids: The start symbol, then the generated tokens, then anything.
        lengths: Generated tokens.
    """

    def spelling(tokens: Tensor) -> Tensor:
        return torch.where(tokens < 0, tokens, words.within_sentence[tokens.clamp(min=0)])

    position = torch.arange(max(1, int(lengths.max())), device=ids.device)
    width = len(position)
    tokens = ids[:, :, 1 : width + 1].masked_fill(position >= lengths[:, None, None], _NO_TOKEN)
    padded = F.pad(tokens, (0, table.shape[2]), value=_NO_TOKEN)
    before = F.pad(padded, (1, 0), value=BOS_ID)[:, :, :-1].clamp(min=0)
    is_word_end = words.begins_word[padded.clamp(min=0)] | ~words.leaves_word_open[before]
    padded, table = spelling(padded), spelling(table)
    agrees = torch.ones((), dtype=torch.bool, device=ids.device)  # each phrase at each position, as far as tokens go
    for offset in range(table.shape[2]):
        token, wanted = padded[:, :, None, offset : offset + width], table[:, None, :, offset, None]
        fits = (token == wanted) | (token == _NO_TOKEN) | (wanted == _ANYTHING)
        agrees = agrees & (fits | ((wanted == _WORD_END) & is_word_end[:, :, None, offset : offset + width]))

    sizes = (table >= 0).sum(dim=2)
    is_complete = position + sizes[:, None, :, None] <= lengths[:, None, None, None]
    stands = agrees & is_complete
    batch, beam, num_phrases, _ = stands.shape
    is_missing = (sizes > 0)[:, None].repeat(1, beam, 1)
    reached = torch.zeros(batch, beam, dtype=torch.long, device=ids.device)  # the end of the last phrase
    complete = torch.zeros_like(reached)  # tokens and word ends of the phrases so far
    num_before = reached[:, :, None].repeat(1, 1, width)  # the same for the phrases before each position
    is_inside = torch.zeros_like(num_before, dtype=torch.bool)  # in a phrase, and not its first token
    for _ in range(num_phrases):  # each round takes the next phrase in all hypotheses
        is_next = stands & is_missing[:, :, :, None] & (position >= reached[:, :, None])[:, :, None]
        # The first maximum is the leftmost position, and there the longest phrase.
        is_found, start = is_next.any(dim=2).int().max(dim=2)
        here = is_next.gather(3, start[:, :, None, None].expand(-1, -1, num_phrases, 1))[:, :, :, 0]
        phrase = here.int().argmax(dim=2, keepdim=True)
        is_missing = is_missing.scatter(2, phrase, is_missing.gather(2, phrase) & (is_found == 0)[:, :, None])
        size = sizes.gather(1, phrase[:, :, 0]) * is_found
        reached = torch.where(is_found > 0, start + size, reached)
        complete = complete + size + is_found
        is_after = position >= (start + size)[:, :, None]
        num_before = num_before + (size + is_found)[:, :, None] * is_after
        is_inside |= (position > start[:, :, None]) & ~is_after

    num_tokens = lengths[:, None] - position  # from a position to the end
    is_possible = ~is_inside & (num_tokens > 0)[:, None]
    is_begun = agrees & ~is_complete & is_missing[:, :, :, None] & is_possible[:, :, None]
    with_begun = (num_before + num_tokens[:, None]) * is_begun.any(dim=2)
    is_unsettled = (reached > 0) & (reached == lengths[:, None])
    return PhraseProgress(
        num_satisfied=torch.maximum(complete - is_unsettled.long(), with_begun.amax(dim=2)),
        is_missing=is_missing,
        num_begun=(is_begun * num_tokens[:, None, None]).amax(dim=3),
    )


class RequiredPhrases:
    """Selects candidates so that each translation contains its sentence's phrases, as often as they are required.

    Hypotheses that have satisfied few required tokens look better than those that have paid for more, and would crowd
    those out. So they do not compete: the beam is divided into banks of hypotheses that have satisfied equally many.
    Slots are dealt out in rounds: in each round, every bank gives its best candidate, the fullest bank first, until no
    slot is open. So banks with few candidates leave their share to the others, and a narrow beam, above all greedy
    search, puts phrases in early.

    Candidates are the best continuations of all hypotheses together, each hypothesis's best token and its best token
    that begins a word, and its next tokens of missing phrases, begun or not. A token that continues the last word of a
    phrase, as `s` after `▁dog`, is not forbidden, because that word may be wanted too. It only puts the hypothesis back
    into a bank that has satisfied less, while the best token that begins a word keeps the "dog". The end symbol is not
    a candidate while a phrase is missing.

    A hypothesis that reaches its maximum length finishes as it is, perhaps without phrases: `unsatisfied_phrases`. A
    sentence without phrases gets what `select_best` gives.

    Args:
        phrases: The phrases of each sentence, without the end symbol; one that is listed twice is required twice.
        words: The tables of the target vocabulary, on the model's device; the end symbol begins a word.

    Source: dynamic beam allocation, Post and Vilar 2018, https://arxiv.org/abs/1804.06609; for whole batches at
    once, Hu et al. 2019, https://aclanthology.org/N19-1090.
    """

    def __init__(self, phrases: Sequence[Sequence[Sequence[int]]], *, words: WordTables, end_id: int) -> None:
        self._end_id, self._words = end_id, words
        self._table = build_table(phrases).to(words.begins_word.device)

    def __call__(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """See `beam.SelectCandidates`."""
        candidates = select_best(state, scores)
        is_open = (state.cumulative_scores > -math.inf).any(dim=1)
        has_phrases = (self._table >= 0).flatten(1).any(dim=1)[state.sentences]
        rows = (has_phrases & is_open).nonzero()[:, 0]
        if not len(rows):
            return candidates
        constrained = self._select(state.select_rows(rows), scores.index_select(0, rows))
        # There are no candidates in reserve: a slot whose hypothesis ends stays empty.
        missing = 0, candidates.tokens.shape[1] - constrained.tokens.shape[1]
        padded = [F.pad(part, missing, value=value) for part, value in zip(constrained, (-math.inf, 0, 0), strict=True)]
        return Candidates(*(old.index_copy(0, rows, new) for old, new in zip(candidates, padded, strict=True)))

    def _select(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """Deal the open slots out to the banks. `scores` is changed."""
        beam = scores.shape[1]
        candidates, banks = self._continuations(state, scores)
        is_of_bank = F.one_hot(banks)
        rounds = is_of_bank.cumsum(dim=1).gather(2, banks[:, :, None])[:, :, 0]
        turns = rounds * is_of_bank.shape[2] - banks  # in a round, the fullest bank first
        is_none = candidates.cumulative_scores == -math.inf
        order = turns.masked_fill(is_none, torch.iinfo(turns.dtype).max).argsort(dim=1)[:, :beam]
        is_open = torch.arange(beam, device=order.device) < (beam - state.num_finished)[:, None]
        selected = candidates.cumulative_scores.gather(1, order).masked_fill(~is_open, -math.inf)
        selected, places = selected.sort(dim=1, descending=True, stable=True)
        order = order.gather(1, places)
        return Candidates(selected, candidates.beam_indices.gather(1, order), candidates.tokens.gather(1, order))

    def _continuations(
        self, state: BeamState, scores: NextTokenScores
    ) -> tuple[Candidates, Int[Tensor, "batch candidates"]]:
        """All distinct candidates, the greatest cumulative score first, and the bank that each would join."""
        _, beam, vocab = scores.shape
        table = self._table[state.sentences]
        _, is_missing, num_begun = find_progress(state.ids, state.lengths, table, words=self._words)
        scores[:, :, self._end_id] = scores[:, :, self._end_id].masked_fill(is_missing.any(dim=2), -math.inf)
        best, best_words = _best_of_each(scores), _best_of_each(scores.masked_fill(~self._words.begins_word, -math.inf))
        first = table[:, None, :, 0].expand_as(num_begun)
        following = table[:, None].expand(-1, beam, -1, -1).gather(3, num_begun[:, :, :, None])[:, :, :, 0]
        # A phrase that is not missing yields a duplicate candidate.
        wanted = torch.where(is_missing.repeat(1, 1, 2), torch.cat((first, following), dim=2), best_words)
        of_each = torch.cat((best, best_words, wanted), dim=2)
        of_each = of_each + vocab * torch.arange(beam, device=scores.device)[:, None]
        best_of_all = largest(scores, beam, offsets=state.cumulative_scores)[1]
        flat = torch.cat((best_of_all, of_each.flatten(1)), dim=1).sort(dim=1).values
        is_again = F.pad(flat[:, 1:] == flat[:, :-1], (1, 0))
        cumulative = scores.flatten(1).gather(1, flat) + state.cumulative_scores.gather(1, flat // vocab)
        cumulative = cumulative.masked_fill(is_again, -math.inf)
        cumulative, order = cumulative.sort(dim=1, descending=True, stable=True)
        width = max(beam, int((cumulative > -math.inf).sum(dim=1).max()))  # no sentence has more
        cumulative, flat = cumulative[:, :width], flat.gather(1, order[:, :width])
        candidates = Candidates(cumulative, flat // vocab, flat % vocab)

        ids = state.ids.gather(1, candidates.beam_indices[:, :, None].expand(-1, -1, state.ids.shape[2]))
        lengths = state.lengths + 1
        position = lengths[:, None, None].expand(-1, ids.shape[1], 1)
        ids = ids.scatter(2, position, candidates.tokens[:, :, None])
        return candidates, find_progress(ids, lengths, table, words=self._words).num_satisfied


def _best_of_each(scores: NextTokenScores) -> Int[Tensor, "batch beam 1"]:
    """The best token after each hypothesis."""
    rows = scores.flatten(0, 1)[:, None]
    return largest(rows, 1, offsets=rows.new_zeros(len(rows), 1))[1].unflatten(0, scores.shape[:2])
