"""Writing models whose pass can be continued, and reading them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import DataError, NonFiniteError, OptionError
from hpcml.files.hdf5 import open_stamped, readable, vocabulary_digest
from hpcml.files.slabs import Slab, new_file
from hpcml.methods.online.kernels import POSITIVES, UPDATES
from hpcml.methods.online.options import LEARNERS, OnlineOptions, with_bias
from hpcml.methods.online.source import DatasetSource, RowStream
from hpcml.methods.online.state import COUNTERS, LANES, N_LANE_NUMBERS, LearnerState
from hpcml.model.linear import STATUS, Model, describe_model, is_smaller_sparse, mask_kept_weights, model_slabs, write_rows
from hpcml.model.open import model_file
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import merge_training_keys, training_keys
from hpcml.options import option_flag
from hpcml.partition import offsets
from hpcml.run.folder import RunFolder

TABLE_CHUNK = 1 << 24  # features
# Options that must be the same when a pass is continued.
MUST_MATCH = ("voted", "alpha", "beta", "theta", "margin", "epsilon", "gamma", "bias", "live_features", "share")


def option_attributes(options: OnlineOptions) -> dict[str, object]:
    values = {option_flag(name): getattr(options, name) for name in MUST_MATCH} | {"bias": bool(options.bias)}
    return {name: 0 if value is None else value for name, value in values.items()}


def label_columns(state: LearnerState) -> dict[str, Any]:
    """Return the columns labels/* of a model of these labels."""
    steps, n_positive = np.minimum(state.counters[UPDATES], 2**31 - 1), state.counters[POSITIVES]
    return {"f_min": np.nan, "steps": steps, "n_positive": n_positive, "status": STATUS.index("one pass"), "visited": 1.0}


def state_slabs(state: LearnerState, n_labels: int, n_features: int) -> dict[str, Slab]:
    slabs = {name: Slab((n_labels, n_features + 1), "<f8") for name in state.array_names}
    return slabs | {LANES: Slab((n_labels, N_LANE_NUMBERS), "<f8"), COUNTERS: Slab((n_labels, 4), "<i8")}


def write_model(
    folder: RunFolder, method: str, source: RowStream, state: LearnerState, local: np.ndarray, more: dict[str, float]
) -> None:
    """Write the model with the attributes `more`. Raises NonFiniteError, DataError. Collective over the ranks of `folder`."""
    comm, (numbers, rows) = folder.comm, state.model_features()
    rows = np.append(0, rows)  # the bias is row 0
    n_labels, width, is_sparse = len(source.names), max(1, numbers.size), False
    n_weights = np.zeros(n_labels, np.int64)
    if state.options.final:  # a model that can be continued has a dense state
        for lane, label in enumerate(local.tolist()):
            with np.errstate(all="ignore"):
                n_weights[label] = np.count_nonzero(mask_kept_weights(state.final_weights(lane, rows)[1:], 0.0))
        mpi.allreduce_sum(comm, n_weights)
        is_sparse = is_smaller_sparse(n_labels, width, int(n_weights.sum()), "<f8")
    indptr = offsets(n_weights)
    slabs = model_slabs(n_labels, state.n_features, width, "<f8", n_weights=int(indptr[-1]) if is_sparse else None)
    if not state.options.final:
        slabs |= {f"state/{name}": slab for name, slab in state_slabs(state, n_labels, numbers.size).items()}
        slabs["state/features"] = Slab((numbers.size,), "<i8")
    about = {"method": method, "split": source.split, "n_rows": state.n_rows, "normalised": LEARNERS[method].winnow}
    about |= option_attributes(state.options) | more | ({"zero_based": True} if source.zero_based else {})
    initial = source.initial
    if source.vocabulary is not None:
        about["vocabulary"] = source.vocabulary
    elif initial is not None and initial.n_features == state.n_features:
        about["vocabulary"] = initial.vocabulary
    else:
        about["vocabulary"] = vocabulary_digest(None, state.n_features)
    with new_file(comm, folder.model, overwrite=True) as out:

        def describe(file: h5py.File) -> None:
            keys, raw_input = (None, None) if initial is None else (initial.training_keys, initial.raw_input)
            if isinstance(source, DatasetSource):
                keys = merge_training_keys(keys, training_keys(source.dataset, source.split))
                raw_input = RawInput.of_dataset(source.dataset)
            keys = None if state.options.no_id_hashes else keys
            describe_model(file, about, source.names, width if is_sparse else None, source.titles, keys, raw_input)

        out.layout(slabs, describe)
        with mpi.agreed(comm, f"writing {folder.model}"):
            # The columns of the features, in chunks: the feature numbers of a stream may be huge.
            for begin in range(0, state.n_features, TABLE_CHUNK) if comm.rank == 0 else ():
                size = min(TABLE_CHUNK, state.n_features - begin)
                columns, factors = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.float32)
                first, last = np.searchsorted(numbers, [begin, begin + size])
                columns[numbers[first:last] - begin], factors[numbers[first:last] - begin] = np.arange(first, last), 1.0
                out.write("columns", begin, columns)
                out.write("factors", begin, factors)
            if comm.rank == 0 and not state.options.final:
                out.write("state/features", 0, numbers)
            if comm.rank == 0 and is_sparse:
                out.write("W/indptr", 0, indptr)
            for name, values in label_columns(state).items() if local.size else ():
                out.write(f"labels/{name}", int(local[0]), np.broadcast_to(values, local.size))
            for lane, label in enumerate(local.tolist()):
                with np.errstate(all="ignore"):
                    weights = state.final_weights(lane, rows)
                if not np.isfinite(weights).all():
                    raise NonFiniteError(
                        f"label {source.names[label]!r}: a weight is not finite; scale the features, or lower --epsilon"
                    )
                places = np.flatnonzero(mask_kept_weights(weights[1:], 0.0))
                write_rows(out, [(places, weights[1:][places])], label, int(indptr[label]))
                out.write("bias", label, weights[:1])
                for key, values in state.state_arrays(lane, rows).items() if not state.options.final else ():
                    out.write(f"state/{key}", label, values[None])
    mpi.run_on_root(comm, f"finishing {folder.model}", folder.remove_checkpoints)


class InitialModel:
    def __init__(self, path: Path, method: str, options: OnlineOptions) -> None:
        """An unset bias in `options` is taken from the model. Raises DataError, ConfigError."""
        path = model_file(path)
        self.path, self.model = path, Model(path)
        attributes = self.model.attrs
        self.options = with_bias(options, method, bool(attributes.get("bias")))
        expected = {"method": method} | option_attributes(self.options)
        if LEARNERS[method].winnow:  # always has an intercept
            del expected["bias"]
        for name, value in expected.items():
            if np.ndim(attributes.get(name)) != 0 or attributes.get(name) != value:
                why = f"trained with {name} = {attributes.get(name)}, not {value}; use the same options"
                raise OptionError("initial_model", path, why)
        with readable(path, "hpcml train", "model"), open_stamped(path, "model", "hpcml train") as file:
            if "state" not in file:
                why = "cannot be continued; it was trained with --final, pruned, or saved by hpcml.save"
                raise OptionError("initial_model", path, why)
            self.n_rows, self.numbers = int(attributes["n_rows"]), file["state/features"][:]
        self.names = self.model.label_names

    def restore(self, source: RowStream, state: LearnerState, local: np.ndarray) -> None:
        if source.vocabulary is not None and source.vocabulary != self.model.vocabulary:
            raise DataError(
                f"{source.name}: features differ from those of --initial-model {self.path}; convert the data with --like"
            )
        if sorted(source.names) != sorted(self.names):
            raise self.label_error("train the same labels")
        source.initial = self.model
        labels = np.array([self.names.index(source.names[label]) for label in local.tolist()], dtype=np.int64)
        with readable(self.path, "hpcml train", "model"), open_stamped(self.path, "model", "hpcml train") as file:
            stored, width = file["state"], self.model.n_features
            state.restore(labels, self.n_rows, width, self.numbers, lambda name, label: stored[name][label])

    def label_error(self, advice: str) -> OptionError:
        return OptionError("initial_model", self.path, f"has other labels ({', '.join(self.names[:5])} …); {advice}")
