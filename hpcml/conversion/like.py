"""The dataset named by --like: its features, weights and labels are used again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hpcml import mpi
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.renames import read_renames
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError


@dataclass
class Like:
    """The parts of another dataset that a conversion uses again.

    `text` is None if it was not made from text, `feature_names` if it was, or without names.
    """

    path: Path
    n_features: int
    label_names: list[str]
    text: TextSettings | None
    feature_names: list[str] | None = None
    label_titles: list[str] | None = None
    new_labels: bool = False  # labels that it lacks become labels, too
    renamed: dict[str, str] = field(default_factory=dict)  # the old names of labels -> those that they have in `label_names`


@mpi.collective
def read_like(comm: mpi.Comm, options: ConvertOptions, source: str, is_text: bool | None) -> Like | None:
    """Collective over `comm`. Read --like, if given; `is_text` None: whatever it was made from.

    Raises ConfigError if it was made from the other kind of source, or for unfit renames, DataError
    for a file that cannot be read.
    """
    like, path = None, options.like
    if path is None:
        return None
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            like = _read(path, source, is_text)
            like.new_labels, like.renamed = options.new_labels, read_renames(options.renamed, like.label_names, path)
            like.label_names = [like.renamed.get(name, name) for name in like.label_names]
    return comm.bcast(like)


def _read(path: Path, source: str, is_text: bool | None) -> Like:
    """What a conversion uses again. Local; raises ConfigError or DataError."""
    with DataFile(path) as dataset:
        of_text = "text" in dataset.file
        if is_text not in (None, of_text):
            made = "text" if of_text else "numbers, not from text"
            raise ConfigError(
                f"--like {path}: was made from {made}, so {source} cannot use its features; expected a file from {source}"
            )
        settings = TextSettings.read(dataset) if of_text else None
        names = None if of_text else dataset.strings("feature_names")
        return Like(path, dataset.n_features, dataset.label_names(), settings, names, dataset.label_titles())


def padded(titles: list[str], size: int) -> list[str]:
    """The titles of so many labels, of which the first have these."""
    return titles + [""] * (size - len(titles))
