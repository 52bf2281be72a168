"""The folder of a training run: config, history, model, log, checkpoints; safe from overwriting."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, HpcmlError, OptionError
from hpcml.files.atomic import sync, write_whole
from hpcml.files.opening import read_small
from hpcml.files.temporary import claimed, remove, temporary_name
from hpcml.log import Log, is_unicode
from hpcml.options import flag_of
from hpcml.run.environment import environment, record
from hpcml.run.lock import FolderLock
from hpcml.run.session import Target
from hpcml.signals import undone
from hpcml.version import version

CONFIG = "config.toml"
MEASURES = "measures.json"  # what `hpcml evaluate --json` may leave there; `hpcml merge` reads it
ENVIRONMENT = "environment.jsonl"
FILES = (CONFIG, "history.csv", "tuning.csv", "choice.csv", "model.h5", "log.txt", ENVIRONMENT, MEASURES)
RESULTS = f"results-{6 * '[0-9]'}.bin"  # pattern of files of `hpcml.run.results`, in the checkpoint folder
NEW, UNFINISHED, FINISHED = "new", "unfinished", "finished"
IF_NONE = {"ranks-per-group": 1}  # options that are None are not in config.toml; then this value is used
Kind = TypeVar("Kind", bound="Options")


class Options(Protocol):
    """The options of a method: a dataclass."""

    free: ClassVar[frozenset[str]]  # of its fields those that may differ between a run and its continuation

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense."""


@dataclass(frozen=True)
class RunConfig:
    """The request for a run, as config.toml has it."""

    method: str
    data: Path | str  # as it can be found from anywhere
    options: Options
    source: str | None = None  # the run folder from whose models it began

    def values(self) -> dict[str, object]:
        """By key, as `--config` reads them; None is what is not said."""
        options = {flag_of(field.name): getattr(self.options, field.name) for field in fields(cast("Any", self.options))}
        return {"method": self.method, "data": str(self.data), "retrained-from": self.source, **options}


def to_toml(values: dict[str, object]) -> str:
    """Return the text of `config.toml`: flat TOML of strings, numbers, truth values and lists; None is left out.

    Raises ConfigError for a string that is no Unicode, such as a file's name: TOML cannot hold it.
    """
    lines = [f"# hpcml {version()}\n"]
    for key, value in values.items():
        if value is None:
            continue
        # JSON's strings, truth values and lists are TOML's, but not its infinity.
        text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
        lines.append(f"{key} = {text}\n".replace("\x7f", "\\u007f"))
        if not is_unicode(lines[-1]):
            raise ConfigError(f"{CONFIG} cannot hold {lines[-1].rstrip()}: the name is not UTF-8; give it one that is")
    return "".join(lines)


class RunFolder(AbstractContextManager["RunFolder"]):
    """The files of a run, untouched before `prepare`, then locked: use it in a `with`."""

    def __init__(self, comm: mpi.Comm, path: Path, log: Log) -> None:
        self.comm, self.path, self.log = comm, path, log
        self.lock = FolderLock(path, log)
        self._fresh = False  # on rank 0: whether the run began here, in an empty folder
        self.checkpoints = path / "checkpoint"
        self.start = self.checkpoints / "start.h5"  # what is known of the model before training
        self.model = path / "model.h5"
        self.history = path / "history.csv"

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def read_finished(self, method: str, hint: str, options_of: Callable[[dict[str, Any]], Any] = dict) -> tuple[Any, Path]:
        """Return the options (by `options_of`) and the data's path of a finished run. Local.

        `hint` ends the sentence about another method. Raises ConfigError, DataError for damage.
        """
        config = self.path / CONFIG
        if not config.exists():
            raise ConfigError(f"{self.path} is no run folder (it has no {CONFIG}); name the --output of an `hpcml train {method}`")
        values = read_config(config)
        if values.get("method") != method:
            raise ConfigError(f"{self.path} is a run of {values.get('method')}; {hint}")
        if "estimator" in values:
            raise ConfigError(f"{self.path} was saved by hpcml.save, without the data of its training; {hint}")
        try:
            found = options_of(values), Path(values["data"])
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise DataError(f"{config}: damaged ({error}); train again with --force") from None
        if not self.model.exists():
            raise ConfigError(f"{self.path} is not finished (it has no {self.model.name}); continue it with --resume first")
        return found

    def prepare(self, config: RunConfig, target: Target) -> str:
        """Collective. Create, empty (`force`) or re-enter (`resume`) it: NEW, UNFINISHED, FINISHED.

        Raises ConfigError if the folder exists and neither is given, or if the run in it had other
        options, and InUseError if another job is at work in it.
        """
        found = environment(self.comm)
        with self.discarded_on_error():
            return mpi.run_on_root(self.comm, f"creating {self.path}", lambda: self._prepare(config, target, found))

    def _prepare(self, config: RunConfig, target: Target, found: dict[str, Any]) -> str:
        file, force, resume = self.path / CONFIG, target.force, target.resume
        self.check(force, resume)  # before anything is touched
        self.lock.acquire()
        present = self.check(force, resume)  # once more, for another job may have begun here
        if present and resume:
            self._check_same(config, read_config(file))
        else:
            self._fresh = True
            self._clear()
        if present and self.model.exists():
            self.drop_checkpoints()
            self.log(f"{self.path} is finished already; nothing to resume")
            return FINISHED
        for leftover in self._leftovers():
            leftover.unlink()
        if not file.exists():
            write_whole(file, to_toml(config.values()).encode())
        self.checkpoints.mkdir(exist_ok=True)
        self.log.file = self.path / "log.txt"
        for said in record(self.path / ENVIRONMENT, found):
            (self.log if said.startswith("warning:") else self.log.detail)(said)
        return UNFINISHED if resume and self.start.exists() else NEW

    @contextmanager
    def replaced(self, config: dict[str, object], force: bool) -> Iterator[Path]:
        """Collective. A folder for a finished run's files, here after the body, with `config`.

        If the body raises, what is here (which may be replaced with `force` only) stays. Raises as `prepare` does.
        """
        fresh = self.path.with_name(self.comm.bcast(temporary_name(self.path).name))
        found = environment(self.comm)
        with ExitStack() as stack:
            stack.enter_context(undone(partial(remove, fresh)))  # by whichever rank ends the job
            with mpi.agreed(self.comm, f"creating {self.path}"):
                if self.comm.rank == 0:
                    self.check(force, resume=False)
                    stack.callback(shutil.rmtree, fresh, ignore_errors=True)
                    stack.enter_context(claimed(fresh, self.path, folder=True))
                    write_whole(fresh / CONFIG, to_toml(config).encode())
                    record(fresh / ENVIRONMENT, found)
            yield fresh
            with mpi.agreed(self.comm, f"finishing {self.path}"):
                if self.comm.rank == 0:
                    self.lock.acquire()
                    if self.check(force, resume=False):
                        self._clear()
                    for name in sorted(FILES, key=lambda name: name == "model.h5"):  # a run is finished when it has its model
                        if (fresh / name).exists():
                            (fresh / name).replace(self.path / name)
                    sync(self.path)

    def _leftovers(self) -> list[Path]:
        """The parts of files that a killed process left."""
        ours = [part for name in FILES for part in self.path.glob(f".{name}.part-*")]
        return [*ours, *self.checkpoints.glob(".*.part-*")]

    def check(self, force: bool, resume: bool) -> bool:
        """Whether there is a run to empty or re-enter. Local; raises ConfigError if not."""
        nothing = {self.lock.path, *self._leftovers()}  # what a job leaves that is killed before it begins
        present = self.path.is_dir() and not nothing.issuperset(self.path.iterdir())
        if force and resume:
            raise OptionError("force", force, "has no effect with", "resume")
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; --output must name a folder")
        config = self.path / CONFIG
        if present and not (force or resume):
            raise ConfigError(f"{self.path} exists already; choose another --output, or use --resume or --force")
        if present and not config.exists():
            raise ConfigError(f"{self.path} holds other files and no run of ours (no {CONFIG}); choose another --output")
        return present

    def _clear(self) -> None:
        """Remove what runs write, and nothing else."""
        self.drop_checkpoints()
        for path in (*(self.path / name for name in FILES), *self._leftovers()):
            path.unlink(missing_ok=True)

    def drop_checkpoints(self) -> None:
        """Remove the checkpoints and the unfinished model. Local; raises OSError."""
        for pattern in ("state-*.h5", "tuning-*.h5", "start.h5", RESULTS, ".*.part-*"):
            for old in self.checkpoints.glob(pattern):
                old.unlink()
        with suppress(OSError):  # absent, or the user's own files are in it
            self.checkpoints.rmdir()

    @contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """Collective. A new run that cannot even begin leaves nothing behind."""
        try:
            yield
        except HpcmlError:
            if self._fresh:
                self.discard()
            raise

    def discard(self) -> None:
        """Remove the run; an empty folder goes with the `with`. Local; raises OSError."""
        self.log.file = None
        self._clear()

    def _check_same(self, config: RunConfig, before: dict[str, object]) -> None:
        """Raise ConfigError naming the first option that a continued run had otherwise."""
        now = tomllib.loads(to_toml(config.values()))
        of_command = {"method": "", "retrained-from": " (hpcml retrain)", "folds": " (hpcml tune)"}  # come first
        fixed = (now.keys() | before.keys()) - {"data", *map(flag_of, config.options.free)}
        for key in sorted(fixed, key=lambda key: (key not in of_command, key)):
            if now.get(key, IF_NONE.get(key)) != before.get(key, IF_NONE.get(key)):
                what = f"{key} = {before.get(key)!r}{of_command.get(key, '')}, not {now.get(key)!r}"
                raise ConfigError(f"{self.path}: this run had {what}; resume with the same options")


def from_dict(kind: type[Kind], values: dict[str, object]) -> Kind:
    """The options of that kind in the values of a `RunConfig`. Raises ConfigError, TypeError."""
    given = {field.name: values[flag_of(field.name)] for field in fields(cast("Any", kind)) if flag_of(field.name) in values}
    options = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
    options.validate()
    return options


def read_config(file: Path) -> dict[str, Any]:
    """The entries of `config.toml`. Local; raises DataError, also if there is none, OSError."""
    if not file.is_file():
        raise DataError(f"{file.parent}: not a run folder (no {file.name})")
    try:
        return tomllib.loads(read_small(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: damaged ({error}); start again with --force") from None
