"""Documents as sparse rows: words (and pairs) weighted log(tf + 1)·idf with unit length, or 1."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.merging import RUN_WORDS, KeyRuns, Runs, merge_keys, merge_runs
from hpcml.conversion.part import LabelledRows, Part, WaitingRows, make_part
from hpcml.conversion.split import row_splits
from hpcml.conversion.vocabulary import PLAIN, Field, TextSettings, Vocabulary, parse_fields
from hpcml.data.headings import TAG
from hpcml.data.row_keys import TEXT, string_key
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError
from hpcml.files.opening import read_small
from hpcml.files.spool import ArraySpool
from hpcml.kernels import elementwise
from hpcml.model.open import require_raw_input
from hpcml.model.trained import Trained
from hpcml.partition import offsets

# A word is a run of letters and digits. With pairs, every other character that is not white space is a token, too: a break.
WORDS = re.compile(r"[^\W_]+")
WORDS_AND_BREAKS = re.compile(r"[^\W_]+|[^\w\s]|_")
BLOCK_TOKENS = 1 << 19
BLOCK_ROWS = 1 << 18
TOKEN = np.dtype(np.int32)
BREAK = TOKEN.type(-1).tobytes()  # between values
PIECE = 1 << 20  # characters of a text that are cut into words together
NO_WORD = re.compile(r"[\W_]")
Values = Sequence[Sequence[str]]  # of a text, the values of each field of `TextSettings.fields`


class _Words(dict):
    """Numbers a field's words as they are first looked up; stop words and breaks are -1."""

    def __init__(self, stop_words: Sequence[str], field: Field, found: list[str]) -> None:
        """New words are put behind those `found`, with the field's tag."""
        self.stop_words = dict.fromkeys(stop_words, -1)
        super().__init__(self.stop_words)
        self.found, self.end, self.whole = found, f" {field.tag}" if field.tag else "", field.whole

    def __missing__(self, token: str) -> int:
        if self.whole or token[0].isalnum():
            self[token] = number = len(self.found)
            self.found.append(token + self.end)
            return number
        self[token] = -1
        return -1


def cut(value: str, whole: bool, find: Callable[[str, int, int], list[str]]) -> Iterator[list[str]]:
    """Yield the tokens of a value: itself if it is taken `whole`, else what `find` finds in pieces, cut where no word can be."""
    if whole:
        yield [" ".join(value.split())] if value.strip() else []
        return
    text, begin = value.lower(), 0
    while begin < len(text):
        gap = NO_WORD.search(text, begin + PIECE) if len(text) - begin > PIECE else None
        end = gap.end() if gap else len(text)
        yield find(text, begin, end)
        begin = end


class TokenSlice(NamedTuple):
    """Some rows: numbers of tokens, their words by number in the run (-1: a break), the run."""

    lengths: np.ndarray
    tokens: np.ndarray
    run: int


class Counted(NamedTuple):
    """The distinct terms of some rows, by row and key: row, place in `keys`, how often."""

    n_rows: int
    keys: np.ndarray
    rows: np.ndarray
    places: np.ndarray
    tf: np.ndarray


class Corpus(LabelledRows):
    """This rank's documents as numbers; no text is kept, and what grows waits outside of memory."""

    def __init__(self, task: Conversion) -> None:
        """An empty corpus with the settings of the options, or of --like. Collective."""
        options, known, path = task.options, None if task.like is None else task.like.text, task.options.stop_words
        super().__init__(task, at_once=options.headings_as_features if known is None else known.headings)
        if known is not None:
            self.pairs, self.stop_words, self.fields, headings = known.pairs, known.stop_words, known.fields, known.headings
        else:
            self.pairs, headings = options.pairs, options.headings_as_features  # the labels of a document are words, too
            self.fields, self.stop_words = parse_fields(options.fields, options.whole_fields), list[str]()
            if path is not None:
                self.stop_words = mpi.run_on_root(task.comm, f"reading {path}", lambda: stop_words(path))
        fields = self.fields
        self.find = (WORDS_AND_BREAKS if self.pairs else WORDS).findall
        self.found: list[str] = []  # the words of this run, with the tags of their fields
        self.runs = Runs(task.scratch)
        self.keys: set[str] = set()  # of some documents, for a hint; a source whose documents have keys fills it
        self.has_values = [False] * len(fields)  # whether a document has values of each field
        each = [_Words(() if field.whole else self.stop_words, field, self.found) for field in fields]
        self.words = each if fields != PLAIN else each[:1] * 2
        self.headings = _Words((), Field("labels", TAG, whole=True), self.found) if headings else None
        self.blocks = ArraySpool(task.scratch, TokenSlice)
        self.block_rows: list[int] = []
        self.tokens, self.lengths = bytearray(), array("q")  # of the rows since the last block
        self.in_run = False  # are there blocks since the last run?

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        return len(self.splits)

    def add(
        self,
        row_id: str,
        values: Sequence[Sequence[str]],
        labels: Sequence[str] | None,
        split: str,
        line: int | None = None,
        group: str = "",
    ) -> None:
        """Append a document; without `row_id` its line names it (None: its place). Raises OSError.

        The labels of a document that nobody labelled are None.
        """
        self.content_keys.append(0 if row_id else string_key(TEXT, *("\x01".join(of_field) for of_field in values)))
        size = len(self.tokens)
        for place, (words, of_field) in enumerate(zip(self.words, values, strict=True)):
            self.has_values[place] |= bool(of_field)
            for value in of_field:
                if len(self.tokens) > size:
                    self.tokens += BREAK
                for tokens in cut(value, words.whole, self.find):
                    self.tokens += np.fromiter(map(words.__getitem__, tokens), dtype=TOKEN, count=len(tokens)).data
        if self.headings is not None:
            for label in dict.fromkeys(labels or ()):
                self.tokens += (BREAK if len(self.tokens) > size else b"") + TOKEN.type(self.headings[label]).tobytes()
        self.lengths.append((len(self.tokens) - size) // TOKEN.itemsize)
        self.describe([labels], [row_id], [split], None if line is None else [line], [group])
        if len(self.tokens) >= BLOCK_TOKENS * TOKEN.itemsize or len(self.lengths) >= BLOCK_ROWS:
            self.close_block()

    def close_block(self, is_last: bool = False) -> None:
        """Put away the documents since the last block, and the words of a run if it is large or `is_last`. Raises OSError."""
        if self.lengths:
            tokens = np.frombuffer(bytes(self.tokens), dtype=TOKEN)
            self.blocks.append(TokenSlice(np.array(self.lengths, dtype=np.int64), tokens, len(self.runs.bounds) - 1))
            self.in_run = True
            self.block_rows.append(len(self.lengths))
            del self.tokens[:], self.lengths[:]
        if len(self.found) >= RUN_WORDS or (is_last and self.in_run):
            for words in (*self.words, self.headings):
                if words is not None:
                    words.clear()
                    words.update(words.stop_words)
            self.runs.add(self.found)
            self.found.clear()
            self.in_run = False

    def keep(self, flags: np.ndarray) -> None:
        """Keep the flagged documents (n_rows); close it. Raises OSError."""
        self.close_block(is_last=True)
        if flags.all():
            return
        by_block = np.split(flags, np.cumsum(self.block_rows))[:-1]
        blocks, self.blocks, self.block_rows = self.blocks, ArraySpool(self.scratch, TokenSlice), []
        for block, some in zip(blocks, by_block, strict=True):
            self.blocks.append(TokenSlice(block.lengths[some], block.tokens[np.repeat(some, block.lengths)], block.run))
            self.block_rows.append(int(np.count_nonzero(some)))
        super().keep(flags)


def stop_words(path: Path) -> list[str]:
    """The words of a UTF-8 file of stop words, cut as any text, sorted. Raises DataError."""
    return sorted(set(WORDS.findall(read_small(path).lower())))


def vectorise(task: Conversion, corpus: Corpus) -> Part:
    """Collective. The corpus as rows, weighted by training rows or --like.

    Raises ConfigError for two kinds of splits; DataError if no word is in enough training rows.
    """
    comm, like, dropped = task.comm, task.like, 0
    with mpi.agreed(comm, "making rows"):
        corpus.close_block(is_last=True)
    keys, groups = corpus.row_keys(comm)
    splits = row_splits(task, keys, groups, corpus.splits)
    if like is not None:
        settings = like.text
        number = {word.encode(): n for n, word in enumerate(settings.vocabulary.words[:])}
        with mpi.agreed(comm, "counting words"):
            corpus.runs.place(lambda codes: np.fromiter((number.get(code, -1) for code in codes), np.int64, len(codes)))
            counted, dropped = _count_all(corpus, settings, True)
    else:
        # The words, and pairs, that occur in enough labelled training rows; if no row is labelled, `write_dataset` says so.
        options = task.options
        train = splits.of_rows == splits.names.index("train") if "train" in splits.names else np.ones(keys.size, dtype=bool)
        labelled = np.ones(keys.size, dtype=bool)
        labelled[np.array(corpus.unlabelled, dtype=np.int64)] = False
        train = train & labelled if mpi.agreed_any(comm, bool(labelled.any())) else train
        by_block = np.split(train, np.cumsum(corpus.block_rows))[:-1]
        _, (n_documents,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(train))])
        with mpi.agreed(comm, "counting words"):
            for run, of_run in groupby(zip(corpus.blocks, by_block, strict=True), key=lambda pair: pair[0].run):
                width = max(1, corpus.runs.bounds[run + 1] - corpus.runs.bounds[run])
                df = np.zeros(width, dtype=np.int64)
                for some, chosen in of_run:
                    of_rows = np.repeat(np.arange(some.lengths.size), some.lengths)
                    use = (some.tokens >= 0) & chosen[of_rows]
                    entries = np.sort(of_rows[use] * width + some.tokens[use])
                    df += np.bincount(entries[np.diff(entries, prepend=-1) > 0] % width, minlength=width)
                corpus.runs.count(run, df)
        words, df = merge_runs(comm, corpus.runs, options.min_df, corpus.scratch)
        if not len(words):
            if not mpi.agreed_any(comm, bool(keys.size)):
                raise DataError(f"{task.what}: no rows; expected at least one")
            where = (
                f"in {options.min_df} of the {n_documents} training rows; lower --min-df" if n_documents else "in a training row"
            )
            raise DataError(f"no word occurs {where}")
        settings = TextSettings(
            vocabulary=Vocabulary(words, np.arange(len(words)) * (len(words) + 1), corpus.fields != PLAIN),
            pairs=corpus.pairs,
            min_df=options.min_df,
            n_documents=int(n_documents),
            idf=None,
            stop_words=corpus.stop_words,
            fields=corpus.fields,
            headings=corpus.headings is not None,
        )
        with mpi.agreed(comm, "counting words"):
            counted, _ = _count_all(corpus, settings, False)
        if corpus.pairs:
            terms = KeyRuns(corpus.scratch)
            with mpi.agreed(comm, "counting word pairs"):
                for block, chosen in zip(counted, by_block, strict=True):
                    counts = np.bincount(block.places[chosen[block.rows]], minlength=block.keys.size)
                    terms.add(block.keys[counts > 0], counts[counts > 0])
            pairs, df = merge_keys(comm, terms, options.min_df)
            settings.vocabulary = Vocabulary(words, pairs, corpus.fields != PLAIN)
        settings.idf = None if options.binary else elementwise.log(n_documents / df)

    vocabulary = settings.vocabulary
    rows = WaitingRows(corpus.scratch, np.int32 if len(vocabulary) < 2**31 else np.int64, with_data=settings.idf is not None)
    with mpi.agreed(comm, "making rows"):
        for block in counted:
            rows.add(*weighted(settings, block))
    about: dict[str, Any] = {"n_features": len(vocabulary), "feature_names": vocabulary, "text": settings, "dropped": dropped}
    return make_part(task, rows, corpus, splits, keys=keys, groups=groups, **about)


def _count_all(corpus: Corpus, settings: TextSettings, with_dropped: bool) -> tuple[ArraySpool[Counted], int]:
    """Return the distinct terms of all rows, by block, and how many words the vocabulary lacks, or 0. Raises OSError."""
    counted, dropped = ArraySpool(corpus.scratch, Counted), 0
    run, places = -1, np.zeros(0, dtype=np.int64)  # the place in the vocabulary of each number of the run
    for block in corpus.blocks:
        if block.run != run:
            run, places = block.run, corpus.runs.places_of(block.run)
        counted.append(count_terms(block, places, len(settings.vocabulary.words) + 1, settings.pairs))
        if with_dropped:
            dropped += int(np.count_nonzero(places[block.tokens[block.tokens >= 0]] < 0))
    return counted, dropped


def count_terms(block: TokenSlice, places_of: np.ndarray, width: int, pairs: bool) -> Counted:
    """The distinct terms of a block's rows."""
    n_rows = block.lengths.size
    rows = np.repeat(np.arange(n_rows), block.lengths)
    words = places_of[block.tokens]
    known = words >= 0
    keys, key_rows = words[known] * width, rows[known]
    if pairs:
        adjacent = known[:-1] & known[1:] & (rows[:-1] == rows[1:])
        keys = np.concatenate([keys, words[:-1][adjacent] * width + words[1:][adjacent] + 1])
        key_rows = np.concatenate([key_rows, rows[:-1][adjacent]])
    unique, places = np.unique(keys, return_inverse=True)
    entries, tf = np.unique(key_rows * max(1, unique.size) + places, return_counts=True)
    entry_rows, places = np.divmod(entries, max(1, unique.size))
    return Counted(n_rows, unique, entry_rows.astype(np.int32), places.astype(np.int32), tf.astype(np.int32))


def weighted(settings: TextSettings, block: Counted) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """How many features each row of a block has, which, and their weights (None: they are 1).

    The weights are log(tf + 1)·idf with unit length per row: float64, squares by column; then float32.
    """
    known = settings.vocabulary.keys
    places = np.minimum(np.searchsorted(known, block.keys), known.size - 1)
    found = known[places] == block.keys if known.size else np.zeros(block.keys.size, dtype=bool)
    columns, weights = np.where(found, places, -1)[block.places], None  # -1 where a term is no feature
    keep = columns >= 0
    if settings.idf is not None:
        keep &= settings.idf[columns] != 0  # a word of all training rows
    rows, columns = block.rows[keep], columns[keep]
    if settings.idf is not None:
        tf = block.tf[keep]
        logarithms = elementwise.log(np.arange(1.0, int(tf.max(initial=0)) + 2))
        weights = logarithms[tf] * settings.idf[columns]
        norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=block.n_rows))
        weights = (weights / norms[rows]).astype(np.float32)
    return np.bincount(rows, minlength=block.n_rows), columns, weights


def settings_of_model(model: Trained) -> TextSettings:
    """Return how texts become rows of a model. Raises ConfigError if it was not trained on texts, DataError."""
    found = require_raw_input(model)
    if not found.is_text:
        raise ConfigError(f"{model.path}: was not trained on texts, or on a selection of their features; use a dataset")
    return TextSettings.of(found, model.path)


class FewTexts:
    """Makes rows of texts in memory, with the bits of `hpcml convert --like`. It holds the vocabulary, some 100 bytes a word."""

    def __init__(self, settings: TextSettings, n_labels: int) -> None:
        self.settings, self.fields, self.n_labels = settings, settings.fields, n_labels
        words = list(settings.vocabulary.words[:])
        self.number = {word: n for n, word in enumerate(words)}
        self.places = np.append(np.arange(len(words)), -1)  # of each word, and of none
        self.find = (WORDS_AND_BREAKS if settings.pairs else WORDS).findall

    def name(self, feature: int) -> str:
        """Return the name of a feature."""
        return self.settings.vocabulary[feature : feature + 1][0]

    def __call__(self, texts: Sequence[Values]) -> Shard:
        """The rows of some texts, without labels. Local."""
        together: list[int] = []  # the words by number; −1 for unknown ones, and between values
        lengths = np.zeros(len(texts), dtype=np.int64)
        for row, values in enumerate(texts):
            begin = len(together)
            for field, of_field in zip(self.settings.fields, values, strict=True):
                end = f" {field.tag}" if field.tag else ""
                for value in of_field:
                    if len(together) > begin:
                        together.append(-1)
                    together += (
                        self.number.get(token + end, -1) for tokens in cut(value, field.whole, self.find) for token in tokens
                    )
            lengths[row] = len(together) - begin
        counted = count_terms(
            TokenSlice(lengths, np.array(together, dtype=TOKEN), 0),
            self.places,
            len(self.settings.vocabulary.words) + 1,
            self.settings.pairs,
        )
        sizes, indices, data = weighted(self.settings, counted)
        data = np.ones(indices.size, dtype=np.float32) if data is None else data
        return Shard.of_csr((offsets(sizes), indices, data), len(self.settings.vocabulary), self.n_labels)
