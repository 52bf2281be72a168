"""Copy labels from model files with the same features into a new model file (`hpcml merge`, `hpcml prune`)."""

from collections.abc import Callable, Iterator, Sequence

import h5py
import numpy as np

from hpcml import mpi
from hpcml.files.slabs import Slab, SlabFile
from hpcml.leave_one_out.cells import ScoreCounts
from hpcml.leave_one_out.decide import decide, order_by_frequency
from hpcml.model.linear import HALF, Model, describe_model, is_smaller_sparse, model_slabs, training_attributes, write_rows
from hpcml.partition import even_bounds, offsets


def create_slabs(model: Model, n_weights: int, n_labels: int, n_cells: int | None = None) -> dict[str, Slab]:
    """Return the datasets of a file of `n_labels` labels with `n_weights` weights, which is like that of `model`.

    `n_cells` is that of `model_slabs`.
    """
    precision = HALF if model.half else model.precision
    is_sparse = model.combination is not None or is_smaller_sparse(n_labels, model.n_columns, n_weights, precision)
    sizes = n_labels, model.n_features, model.n_columns, precision, "gap" in model.labels
    return model_slabs(*sizes, n_weights if is_sparse else None, model.labels, n_cells)


def copy_labels(
    comm: mpi.Comm,
    out: SlabFile,
    sources: Sequence[Callable[[], Model]],
    sizes: Sequence[int],
    names: Sequence[str],
    titles: Sequence[str] | None,
) -> None:
    """Write the labels of all sources in their order; `names` and `titles` are needed on rank 0 only. Collective over `comm`.

    Thresholds from leave-one-out scores are computed again from the counts of all labels.
    """
    begins = offsets(sizes)
    n_labels = int(begins[-1])
    first_own, end_own = even_bounds(n_labels, comm.size)[comm.rank : comm.rank + 2].tolist()

    def own_labels() -> Iterator[tuple[Model, int, slice]]:
        # yields each source of this rank's labels, the source's first label, and the range of its labels to copy
        for source, first, end in zip(sources, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            if max(first, first_own) < min(end, end_own):
                yield source(), first, slice(max(first, first_own) - first, min(end, end_own) - first)

    counts = np.zeros((3, n_labels), np.int64)  # weights, cells with scores, and positive rows
    with mpi.agreed(comm, "reading models"):
        for part, first, own in own_labels():
            for label in range(own.start, own.stop):
                counts[0, first + label] = part.row(label)[1].size
            counts[2, first + own.start : first + own.stop] = part.labels["n_positive"][own]
            if part.scores is not None:
                counts[1, first + own.start : first + own.stop] = np.diff(part.scores.indptr)[own]
            del part  # close it before the next one is opened: a model has a dozen open files
    n_positive = mpi.allreduce_sum(comm, counts)[2]
    indptr, cells = map(offsets, counts[:2])
    pooled = [[np.zeros(0, dtype=np.int64)] for _ in ScoreCounts._fields[1:]]
    n_rows = 0  # of the training, if thresholds are computed again
    order = np.zeros(0, dtype=np.int64)
    model: Model | None = None
    slabs: dict[str, Slab] = {}
    with mpi.agreed(comm, "reading models"):
        if comm.rank == 0:
            model = sources[0]()
            if model.scores is not None and model.has_own_thresholds:
                n_rows, order = int(model.attrs["n_rows"]), order_by_frequency(n_positive, names)
            slabs = create_slabs(model, int(indptr[-1]), n_labels, None if model.scores is None else int(cells[-1]))

    def describe(file: h5py.File) -> None:
        assert model is not None
        n_columns = None if "W" in slabs else model.n_columns
        describe_model(file, training_attributes(model.attrs), names, n_columns, titles, model.training_keys, model.raw_input)

    n_rows, order = comm.bcast((n_rows, order))
    out.layout(slabs, describe)
    with mpi.agreed(comm, f"writing {out.target}"):
        if model is not None:
            tables = {"columns": model.columns, "factors": model.factors} | ({} if "W" in slabs else {"W/indptr": indptr})
            tables |= {} if model.scores is None else {"scores/indptr": cells}
            for name, values in tables.items():
                out.write(name, 0, values)
            del tables, values
        model = None
        for part, first, own in own_labels():
            for name, values in {"bias": part.bias, **{f"labels/{name}": values for name, values in part.labels.items()}}.items():
                out.write(name, first + own.start, values[own])
            rows = map(part.row, range(own.start, own.stop))
            write_rows(out, rows, first + own.start, int(indptr[first + own.start]))
            if part.scores is not None:
                _, *arrays = part.scores.rows(own.start, own.stop)
                for name, values, kept in zip(ScoreCounts._fields[1:], arrays, pooled, strict=True):
                    out.write(f"scores/{name}", int(cells[first + own.start]), values)
                    kept.append(np.array(values if n_rows else []))  # a copy: the model is closed
            del rows
            del part
    if n_rows:
        own_counts = ScoreCounts(cells[first_own : end_own + 1] - cells[first_own], *map(np.concatenate, pooled))
        decision = decide(comm, own_counts, first_own, n_positive, n_rows, order)
        with mpi.agreed(comm, f"writing {out.target}"):
            out.write("labels/threshold", first_own, decision.thresholds)
