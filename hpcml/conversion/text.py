"""Convert documents to sparse rows: words (and pairs) weighted log(tf + 1)·idf with unit length, or 1."""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion import vocabulary as terms
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import LabelledRows, Part, RowBuffer, make_part
from hpcml.conversion.split import row_splits
from hpcml.conversion.vocabulary import PLAIN, Field, TextSettings, Vocabulary, parse_fields
from hpcml.data.headings import TAG
from hpcml.data.row_keys import TEXT, string_key
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError
from hpcml.files.opening import read_small
from hpcml.files.spool import DiskTuples
from hpcml.kernels import elementwise
from hpcml.model.open import require_raw_input
from hpcml.model.trained import Trained
from hpcml.partition import offsets

# A word is a run of letters and digits. With pairs, any other character except white space is also a token, a break.
WORDS = re.compile(r"[^\W_]+")
WORDS_AND_BREAKS = re.compile(r"[^\W_]+|[^\w\s]|_")
BLOCK_TOKENS = 1 << 19
BLOCK_ROWS = 1 << 18
TOKEN = np.dtype(np.int32)
BREAK = TOKEN.type(-1).tobytes()  # between values
PIECE = 1 << 20  # characters tokenised at a time
NO_WORD = re.compile(r"[\W_]")
Values = Sequence[Sequence[str]]  # the values of each field of one text


class _Words(dict):
    """Numbers the words of a field in the order of first use; stop words and breaks are -1."""

    def __init__(self, stop_words: Sequence[str], field: Field, run_words: list[str]) -> None:
        self.stop_words = dict.fromkeys(stop_words, -1)
        super().__init__(self.stop_words)
        self.run_words, self.end, self.whole = run_words, f" {field.tag}" if field.tag else "", field.whole

    def __missing__(self, token: str) -> int:
        if self.whole or token[0].isalnum():
            self[token] = number = len(self.run_words)
            self.run_words.append(token + self.end)
            return number
        self[token] = -1
        return -1


def tokenize(value: str, whole: bool, find: Callable[[str, int, int], list[str]]) -> Iterator[list[str]]:
    if whole:
        yield [" ".join(value.split())] if value.strip() else []
        return
    text, begin = value.lower(), 0
    while begin < len(text):
        gap = NO_WORD.search(text, begin + PIECE) if len(text) - begin > PIECE else None
        end = gap.end() if gap else len(text)
        yield find(text, begin, end)
        begin = end


class TokenBlock(NamedTuple):
    """Consecutive rows: tokens per row, word numbers in the run (-1: break), and the run."""

    lengths: np.ndarray
    tokens: np.ndarray
    run: int


class TermCounts(NamedTuple):
    """The distinct terms of some rows: row, position in `keys`, and count of each, sorted by row and key."""

    n_rows: int
    keys: np.ndarray
    rows: np.ndarray
    terms: np.ndarray
    tf: np.ndarray


class Corpus(LabelledRows):
    def __init__(self, task: Conversion) -> None:
        options, known, path = task.options, None if task.like is None else task.like.text, task.options.stop_words
        super().__init__(task, at_once=options.headings_as_features if known is None else known.headings)
        if known is not None:
            self.pairs, self.stop_words, self.fields, headings = known.pairs, known.stop_words, known.fields, known.headings
        else:
            self.pairs, headings = options.pairs, options.headings_as_features  # the labels of a document are also features
            self.fields, self.stop_words = parse_fields(options.fields, options.whole_fields), list[str]()
            if path is not None:
                self.stop_words = mpi.run_on_root(task.comm, f"reading {path}", lambda: read_stop_words(path))
        fields = self.fields
        self.find = (WORDS_AND_BREAKS if self.pairs else WORDS).findall
        self.run_words: list[str] = []  # words of this run, with field tags
        self.runs = terms.Runs(task.scratch)
        self.keys_seen: set[str] = set()  # keys of some documents, for error messages
        self.has_values = [False] * len(fields)  # whether any document has a value of each field
        each = [_Words(() if field.whole else self.stop_words, field, self.run_words) for field in fields]
        self.words = each if fields != PLAIN else each[:1] * 2
        self.headings = _Words((), Field("labels", TAG, whole=True), self.run_words) if headings else None
        self.blocks = DiskTuples(task.scratch, TokenBlock)
        self.block_rows: list[int] = []
        self.tokens, self.lengths = bytearray(), array("q")  # of the current block
        self.in_run = False  # whether blocks follow the last run

    @property
    def n_rows(self) -> int:
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
        """Without `row_id`, the line or position names the document. `labels` None: unlabelled."""
        self.content_keys.append(0 if row_id else string_key(TEXT, *("\x01".join(field_values) for field_values in values)))
        size = len(self.tokens)
        for number, (words, field_values) in enumerate(zip(self.words, values, strict=True)):
            self.has_values[number] |= bool(field_values)
            for value in field_values:
                if len(self.tokens) > size:
                    self.tokens += BREAK
                for tokens in tokenize(value, words.whole, self.find):
                    self.tokens += np.fromiter(map(words.__getitem__, tokens), dtype=TOKEN, count=len(tokens)).data
        if self.headings is not None:
            for label in dict.fromkeys(labels or ()):
                self.tokens += (BREAK if len(self.tokens) > size else b"") + TOKEN.type(self.headings[label]).tobytes()
        self.lengths.append((len(self.tokens) - size) // TOKEN.itemsize)
        self.describe([labels], [row_id], [split], None if line is None else [line], [group])
        if len(self.tokens) >= BLOCK_TOKENS * TOKEN.itemsize or len(self.lengths) >= BLOCK_ROWS:
            self.close_block()

    def close_block(self, is_last: bool = False) -> None:
        if self.lengths:
            tokens = np.frombuffer(bytes(self.tokens), dtype=TOKEN)
            self.blocks.append(TokenBlock(np.array(self.lengths, dtype=np.int64), tokens, len(self.runs.bounds) - 1))
            self.in_run = True
            self.block_rows.append(len(self.lengths))
            del self.tokens[:], self.lengths[:]
        if len(self.run_words) >= terms.RUN_WORDS or (is_last and self.in_run):
            for words in (*self.words, self.headings):
                if words is not None:
                    words.clear()
                    words.update(words.stop_words)
            self.runs.add(self.run_words)
            self.run_words.clear()
            self.in_run = False

    def keep(self, flags: np.ndarray) -> None:
        self.close_block(is_last=True)
        if flags.all():
            return
        by_block = np.split(flags, np.cumsum(self.block_rows))[:-1]
        blocks, self.blocks, self.block_rows = self.blocks, DiskTuples(self.scratch, TokenBlock), []
        for block, rows in zip(blocks, by_block, strict=True):
            self.blocks.append(TokenBlock(block.lengths[rows], block.tokens[np.repeat(rows, block.lengths)], block.run))
            self.block_rows.append(int(np.count_nonzero(rows)))
        super().keep(flags)


def read_stop_words(path: Path) -> list[str]:
    return sorted(set(WORDS.findall(read_small(path).lower())))


def vectorise(task: Conversion, corpus: Corpus) -> Part:
    """Weights are from the training rows or from --like. Collective."""
    comm, like, dropped = task.comm, task.like, 0
    task.log.detail(f"{task.input_name}: read; computing features")
    with mpi.agreed(comm, "computing features"):
        corpus.close_block(is_last=True)
    keys, groups = corpus.row_keys(comm)
    splits = row_splits(task, keys, groups, corpus.splits)
    if like is not None:
        settings = like.text
        number = {word.encode(): n for n, word in enumerate(settings.vocabulary.words[:])}
        with mpi.agreed(comm, "counting words"):
            corpus.runs.assign_ids(lambda codes: np.fromiter((number.get(code, -1) for code in codes), np.int64, len(codes)))
            counted, dropped = _count_blocks(corpus, settings, True)
    else:
        # Count words and pairs in labelled training rows. If no row is labelled, `write_dataset` raises the error.
        options = task.options
        train = splits.split_of_row == splits.names.index("train") if "train" in splits.names else np.ones(keys.size, dtype=bool)
        labelled = np.ones(keys.size, dtype=bool)
        labelled[np.array(corpus.unlabelled, dtype=np.int64)] = False
        train = train & labelled if mpi.agreed_any(comm, bool(labelled.any())) else train
        by_block = np.split(train, np.cumsum(corpus.block_rows))[:-1]
        _, (n_documents,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(train))])
        with mpi.agreed(comm, "counting words"):
            for run, blocks_of_run in groupby(zip(corpus.blocks, by_block, strict=True), key=lambda pair: pair[0].run):
                width = max(1, corpus.runs.bounds[run + 1] - corpus.runs.bounds[run])
                df = np.zeros(width, dtype=np.int64)
                for part, chosen in blocks_of_run:
                    row_numbers = np.repeat(np.arange(part.lengths.size), part.lengths)
                    use = (part.tokens >= 0) & chosen[row_numbers]
                    entries = np.sort(row_numbers[use] * width + part.tokens[use])
                    df += np.bincount(entries[np.diff(entries, prepend=-1) > 0] % width, minlength=width)
                corpus.runs.set_counts(run, df)
        words, df = terms.merge_runs(comm, corpus.runs, options.min_df, corpus.scratch)
        if not len(words):
            if not mpi.agreed_any(comm, bool(keys.size)):
                raise DataError(f"{task.input_name}: no rows; expected at least one")
            minimum = f"in {options.min_df} of the {n_documents} training rows; lower --min-df"
            raise DataError(f"no word occurs {minimum if n_documents else 'in a training row'}")
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
            counted, _ = _count_blocks(corpus, settings, False)
        if corpus.pairs:
            key_runs = terms.KeyRuns(corpus.scratch)
            with mpi.agreed(comm, "counting word pairs"):
                for block, chosen in zip(counted, by_block, strict=True):
                    counts = np.bincount(block.terms[chosen[block.rows]], minlength=block.keys.size)
                    key_runs.add(block.keys[counts > 0], counts[counts > 0])
            pairs, df = terms.merge_keys(comm, key_runs, options.min_df)
            settings.vocabulary = Vocabulary(words, pairs, corpus.fields != PLAIN)
        settings.idf = None if options.binary else elementwise.log(n_documents / df)

    vocabulary = settings.vocabulary
    rows = RowBuffer(corpus.scratch, np.int32 if len(vocabulary) < 2**31 else np.int64, with_data=settings.idf is not None)
    with mpi.agreed(comm, "computing features"):
        for block in counted:
            rows.append(*weigh_terms(settings, block))
    about: dict[str, Any] = {"n_features": len(vocabulary), "feature_names": vocabulary, "text": settings, "dropped": dropped}
    return make_part(task, rows, corpus, splits, keys=keys, groups=groups, **about)


def _count_blocks(corpus: Corpus, settings: TextSettings, with_dropped: bool) -> tuple[DiskTuples[TermCounts], int]:
    """Also return the number of words missing from the vocabulary (0 unless `with_dropped`)."""
    counted, dropped = DiskTuples(corpus.scratch, TermCounts), 0
    run, word_ids_of_run = -1, np.zeros(0, dtype=np.int64)  # word number in the run -> word id in the vocabulary
    for block in corpus.blocks:
        if block.run != run:
            run, word_ids_of_run = block.run, corpus.runs.word_ids(block.run)
        counted.append(count_terms(block, word_ids_of_run, len(settings.vocabulary.words) + 1, settings.pairs))
        if with_dropped:
            dropped += int(np.count_nonzero(word_ids_of_run[block.tokens[block.tokens >= 0]] < 0))
    return counted, dropped


def count_terms(block: TokenBlock, word_ids: np.ndarray, width: int, pairs: bool) -> TermCounts:
    n_rows = block.lengths.size
    rows = np.repeat(np.arange(n_rows), block.lengths)
    words = word_ids[block.tokens]
    known = words >= 0
    keys, key_rows = words[known] * width, rows[known]
    if pairs:
        adjacent = known[:-1] & known[1:] & (rows[:-1] == rows[1:])
        keys = np.concatenate([keys, words[:-1][adjacent] * width + words[1:][adjacent] + 1])
        key_rows = np.concatenate([key_rows, rows[:-1][adjacent]])
    unique, positions = np.unique(keys, return_inverse=True)
    entries, tf = np.unique(key_rows * max(1, unique.size) + positions, return_counts=True)
    entry_rows, positions = np.divmod(entries, max(1, unique.size))
    return TermCounts(n_rows, unique, entry_rows.astype(np.int32), positions.astype(np.int32), tf.astype(np.int32))


def weigh_terms(settings: TextSettings, block: TermCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Weights are computed in float64, with squares added by column, then rounded to float32. No weights: 1."""
    known = settings.vocabulary.keys
    positions = np.minimum(np.searchsorted(known, block.keys), known.size - 1)
    is_known = known[positions] == block.keys if known.size else np.zeros(block.keys.size, dtype=bool)
    columns, weights = np.where(is_known, positions, -1)[block.terms], None  # -1: not a feature
    keep = columns >= 0
    if settings.idf is not None:
        keep &= settings.idf[columns] != 0  # words of all training rows weigh 0
    rows, columns = block.rows[keep], columns[keep]
    if settings.idf is not None:
        tf = block.tf[keep]
        logarithms = elementwise.log(np.arange(1.0, int(tf.max(initial=0)) + 2))
        weights = logarithms[tf] * settings.idf[columns]
        norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=block.n_rows))
        weights = (weights / norms[rows]).astype(np.float32)
    return np.bincount(rows, minlength=block.n_rows), columns, weights


def settings_of_model(model: Trained) -> TextSettings:
    raw_input = require_raw_input(model)
    if not raw_input.is_text:
        raise ConfigError(f"{model.path}: was not trained on text, or only on selected features; use a dataset")
    return TextSettings.of(raw_input, model.path)


class FewTexts:
    """Converts texts in memory to the same bits as `hpcml convert --like`; needs about 100 bytes per word."""

    def __init__(self, settings: TextSettings, n_labels: int) -> None:
        self.settings, self.fields, self.n_labels = settings, settings.fields, n_labels
        words = list(settings.vocabulary.words[:])
        self.number = {word: n for n, word in enumerate(words)}
        self.word_ids = np.append(np.arange(len(words)), -1)  # the last entry is for unknown words
        self.find = (WORDS_AND_BREAKS if settings.pairs else WORDS).findall

    def name(self, feature: int) -> str:
        return self.settings.vocabulary[feature : feature + 1][0]

    def __call__(self, texts: Sequence[Values]) -> Shard:
        ids: list[int] = []  # word ids; −1 for unknown words and between values
        lengths = np.zeros(len(texts), dtype=np.int64)
        for row, values in enumerate(texts):
            begin = len(ids)
            for field, field_values in zip(self.settings.fields, values, strict=True):
                end = f" {field.tag}" if field.tag else ""
                for value in field_values:
                    if len(ids) > begin:
                        ids.append(-1)
                    for tokens in tokenize(value, field.whole, self.find):
                        ids += (self.number.get(token + end, -1) for token in tokens)
            lengths[row] = len(ids) - begin
        block, width = TokenBlock(lengths, np.array(ids, dtype=TOKEN), 0), len(self.settings.vocabulary.words) + 1
        sizes, indices, data = weigh_terms(self.settings, count_terms(block, self.word_ids, width, self.settings.pairs))
        data = np.ones(indices.size, dtype=np.float32) if data is None else data
        return Shard.of_csr((offsets(sizes), indices, data), len(self.settings.vocabulary), self.n_labels)
