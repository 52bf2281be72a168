"""Options of `convert` that make no sense, or do not fit a source: one sentence each."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path

from hpcml.conversion.fields import PLAIN, parse_fields
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import OF_TEXT, SOURCES, Source
from hpcml.conversion.split import check_share
from hpcml.errors import ConfigError, nearest
from hpcml.files.lines import line_limit
from hpcml.options import flag_of

DEFAULTS = ConvertOptions()
MAX_ROWS = 2**40  # so that sizes in bytes fit int64


def check_options(source: str, inputs: list[Path], options: ConvertOptions) -> Source:
    """The source of that name. Raises ConfigError for an unknown one and for unfit options."""
    if source not in SOURCES:
        near = difflib.get_close_matches(source, SOURCES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(SOURCES))}"
        raise ConfigError(f"no source {source!r}; {hint}")
    found = SOURCES[source]
    _check_inputs(source, found, inputs, options)
    check_of_source(source, found.options, options)
    check_common(source, of_text(found.is_text, options), options)
    if found.check is not None:
        found.check(str(inputs[0]), options)
    if options.seed and not found.names and options.test_share is None:
        raise ConfigError(f"--seed {options.seed} has no effect without --test-share; leave it out")
    return found


def of_text(is_text: bool | None, options: ConvertOptions) -> bool | None:
    """Whether rows are made from text, as far as options tell (None: --like may say)."""
    if is_text is None and (options.text or options.fields):
        return True
    return False if is_text is None and (options.features or options.like is None) else is_text


def check_of_source(source: str, known: Collection[str], options: ConvertOptions) -> None:
    """Raise ConfigError for options of other sources, or without effect beside the others."""
    if options.zero_based and "zero_based" not in known:
        raise ConfigError(f"--zero-based is for svmlight, but {source} has no indices; leave it out")
    for name in sorted({name for each in SOURCES.values() for name in each.options} - {*known}):
        value = getattr(options, name)
        if value not in (None, (), False):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
            *others, last = (other for other, each in sorted(SOURCES.items()) if name in each.options)
            users = f"{', '.join(others)} and {last}" if others else last
            flag = f"--{flag_of(name)}" if value is True else f"--{flag_of(name)} {shown}"
            raise ConfigError(f"{flag} is for {users}, but this is {source}; leave it out")
    line_limit(options.max_line_mb)
    if options.label_separator is not None and not options.label_separator:
        raise ConfigError('--label-separator: empty, but expected what stands between labels, such as ";"')
    if options.label_separator is not None and "labels" in known and not options.labels:
        raise ConfigError(f"--label-separator {options.label_separator} has no effect without --labels; leave it out")
    if options.empty_labels not in (None, "none"):
        raise ConfigError(f"--empty-labels {options.empty_labels}: expected none")
    if options.empty_labels is not None and "labels" in known and not options.labels and not options.indicators:
        raise ConfigError(f"--empty-labels {options.empty_labels} has no effect without --labels or --indicators; leave it out")
    if options.delimiter is not None and (
        len(options.delimiter) != 1 or options.delimiter in '"\n\r' or not options.delimiter.isascii()
    ):
        raise ConfigError(f"--delimiter {options.delimiter!r}: expected one ASCII character that stands between columns")
    if options.text and options.fields:
        raise ConfigError("--text and --fields both name columns of texts; leave one out (--fields tells their words apart)")
    if options.features and (options.text or options.fields):
        raise ConfigError("--features are numbers, but --text and --fields make rows from texts; leave one out")
    for name in ("missing_as_zero", "missing_columns_as_zero"):
        if getattr(options, name) and (options.text or options.fields):
            raise ConfigError(f"--{flag_of(name)} is for numbers, but --text and --fields make rows from texts; leave it out")


def check_common(source: str, is_text: bool | None, options: ConvertOptions) -> None:
    """Raise ConfigError for unfit options of all sources; `is_text` None: not known yet."""
    if options.min_df < 1:
        raise ConfigError(f"--min-df {options.min_df}: expected at least 1")
    if options.test_share is not None:
        check_share(options.test_share)
    if options.test_share is not None and options.split_column is not None:
        raise ConfigError(f"--test-share {options.test_share}: --split-column names splits already; leave one out")
    for name in ("new_labels", "renamed", "missing_columns_as_zero"):
        if getattr(options, name) and options.like is None:
            raise ConfigError(
                f"--{flag_of(name)} has no effect without --like; leave it out, or name the dataset whose features are used again"
            )
    try:
        fields = [field.name for field in parse_fields(options.fields, options.whole_fields)]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    without = " without --text" if source in SOURCES and SOURCES[source].is_text is None else ""
    for name in OF_TEXT:
        flag, value = f"--{flag_of(name)}", getattr(options, name)
        used = value and value != getattr(DEFAULTS, name)
        if used and is_text is False:
            raise ConfigError(f"{flag} is for text, but {source} has numbers{without}; leave it out")
        if used and options.like is not None:
            raise ConfigError(f"{flag} does not go with --like, which takes it from {options.like}; leave it out")
    if options.fields and source == "folder":
        raise ConfigError(
            f"--fields {','.join(options.fields)}: a file is one text, so there is nothing to tell apart; leave it out"
        )
    for field in fields if source == "docstrings" else ():
        if field not in (each.name for each in PLAIN):
            raise ConfigError(f"--fields {field}: docstrings have the fields title and text; choose of these")


def _check_inputs(source: str, found: Source, inputs: list[Path], options: ConvertOptions) -> None:
    """Raise ConfigError unless the inputs, --rows and --like are what the source takes."""
    names = sorted(found.names)
    least, most = found.n_inputs
    if not least <= len(inputs) <= most:
        files = {0: "no input file", 1: "one input file", 2: "one input file or two"}.get(most, "one or more input files")
        takes = f"one of {', '.join(names)}" if names else files
        raise ConfigError(f"{source} takes {takes}, but got {len(inputs) or 'none'}")
    if not names:
        if options.rows is not None:
            raise ConfigError(f"--rows is for synthetic, but {source} has rows of its own; leave it out")
        return
    if str(inputs[0]) not in names:
        raise ConfigError(f"{source} cannot make {str(inputs[0])!r}; {nearest(str(inputs[0]), names)}")
    if options.rows is None:
        raise ConfigError(f"{source} needs --rows, the number of rows to make")
    if not 1 <= options.rows <= MAX_ROWS:
        raise ConfigError(f"--rows {options.rows}: expected at least 1 and at most {MAX_ROWS}")
    if options.like is not None:
        raise ConfigError(f"--like {options.like}: {source} has features and labels of its own; leave it out")
