"""The folder of a training run: config, history, model, log, checkpoints; protected from accidental overwriting."""

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
from hpcml.files.atomic import sync, write_atomically
from hpcml.files.opening import read_small
from hpcml.files.temporary import claimed, remove, temporary_name
from hpcml.log import Log, is_unicode
from hpcml.options import option_flag
from hpcml.run.environment import environment, record
from hpcml.run.lock import FolderLock
from hpcml.run.session import Target
from hpcml.signals import cleanup_on_exit
from hpcml.version import version

CONFIG = "config.toml"
MEASURES = "measures.json"  # optional output of `hpcml evaluate --json`, read by `hpcml merge`
ENVIRONMENT = "environment.jsonl"
FILES = (CONFIG, "history.csv", "tuning.csv", "choice.csv", "model.h5", "log.txt", ENVIRONMENT, MEASURES)
RESULTS = f"results-{6 * '[0-9]'}.bin"  # pattern of the files of `hpcml.run.results` in the checkpoint folder
NEW, UNFINISHED, FINISHED = "new", "unfinished", "finished"
IF_NONE = {"ranks-per-group": 1}  # values of options that are None, which config.toml omits
Kind = TypeVar("Kind", bound="Options")


class Options(Protocol):
    free: ClassVar[frozenset[str]]  # fields that may differ between a run and its continuation

    def validate(self) -> None:
        """Raise ConfigError for invalid values."""


@dataclass(frozen=True)
class RunConfig:
    method: str
    data: Path | str  # absolute path
    options: Options
    source: str | None = None  # run folder of the initial models

    def values(self) -> dict[str, object]:
        options = {option_flag(field.name): getattr(self.options, field.name) for field in fields(cast("Any", self.options))}
        return {"method": self.method, "data": str(self.data), "retrained-from": self.source, **options}


def to_toml(values: dict[str, object]) -> str:
    lines = [f"# hpcml {version()}\n"]
    for key, value in values.items():
        if value is None:
            continue
        # JSON's strings, booleans and lists are valid TOML, but not its infinity.
        text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
        lines.append(f"{key} = {text}\n".replace("\x7f", "\\u007f"))
        if not is_unicode(lines[-1]):
            raise ConfigError(f"{CONFIG} cannot contain {lines[-1].rstrip()}: the name is not UTF-8; rename the file")
    return "".join(lines)


class RunFolder(AbstractContextManager["RunFolder"]):
    """The files of a run, unchanged before `prepare` and locked afterwards; use it in a `with`."""

    def __init__(self, comm: mpi.Comm, path: Path, log: Log) -> None:
        self.comm, self.path, self.log = comm, path, log
        self.lock = FolderLock(path, log)
        self._fresh = False  # on rank 0: the run began here, in an empty folder
        self.checkpoints = path / "checkpoint"
        self.start = self.checkpoints / "start.h5"  # contents of the model that are known before training
        self.model = path / "model.h5"
        self.history = path / "history.csv"

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def read_finished(self, method: str, hint: str, options_of: Callable[[dict[str, Any]], Any] = dict) -> tuple[Any, Path]:
        """Return options (by `options_of`) and data path of a finished run; `hint` ends messages. Raises ConfigError, DataError."""
        config = self.path / CONFIG
        if not config.exists():
            raise ConfigError(f"{self.path} is not a run folder (no {CONFIG}); use the --output of `hpcml train {method}`")
        values = read_config(config)
        if values.get("method") != method:
            raise ConfigError(f"{self.path} is a run of {values.get('method')}; {hint}")
        if "estimator" in values:
            raise ConfigError(f"{self.path} was saved by hpcml.save, without the data of its training; {hint}")
        try:
            result = options_of(values), Path(values["data"])
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise DataError(f"{config}: damaged ({error}); train again with --force") from None
        if not self.model.exists():
            raise ConfigError(f"{self.path} is not finished (no {self.model.name}); continue it with --resume first")
        return result

    def prepare(self, config: RunConfig, target: Target) -> str:
        current = environment(self.comm)
        with self.discard_on_error():
            return mpi.run_on_root(self.comm, f"creating {self.path}", lambda: self._prepare(config, target, current))

    def _prepare(self, config: RunConfig, target: Target, current: dict[str, Any]) -> str:
        file, force, resume = self.path / CONFIG, target.force, target.resume
        self.check(force, resume)  # before anything is changed
        self.lock.acquire()
        present = self.check(force, resume)  # again, because another job may have started here
        if present and resume:
            self._check_same(config, read_config(file))
        else:
            self._fresh = True
            self._clear()
        if present and self.model.exists():
            self.remove_checkpoints()
            self.log(f"{self.path} is finished already; nothing to resume")
            return FINISHED
        for leftover in self._leftovers():
            leftover.unlink()
        if not file.exists():
            write_atomically(file, to_toml(config.values()).encode())
        self.checkpoints.mkdir(exist_ok=True)
        self.log.file = self.path / "log.txt"
        for message in record(self.path / ENVIRONMENT, current):
            (self.log if message.startswith("warning:") else self.log.detail)(message)
        return UNFINISHED if resume and self.start.exists() else NEW

    @contextmanager
    def replaced(self, config: dict[str, object], force: bool) -> Iterator[Path]:
        """Yield a folder whose files, with `config`, replace those of this run after the body. Raises as `prepare`. Collective."""
        fresh = self.path.with_name(self.comm.bcast(temporary_name(self.path).name))
        current = environment(self.comm)
        with ExitStack() as stack:
            stack.enter_context(cleanup_on_exit(partial(remove, fresh)))  # on whichever rank ends the job
            with mpi.agreed(self.comm, f"creating {self.path}"):
                if self.comm.rank == 0:
                    self.check(force, resume=False)
                    stack.callback(shutil.rmtree, fresh, ignore_errors=True)
                    stack.enter_context(claimed(fresh, self.path, folder=True))
                    write_atomically(fresh / CONFIG, to_toml(config).encode())
                    record(fresh / ENVIRONMENT, current)
            yield fresh
            with mpi.agreed(self.comm, f"finishing {self.path}"):
                if self.comm.rank == 0:
                    self.lock.acquire()
                    if self.check(force, resume=False):
                        self._clear()
                    for name in sorted(FILES, key=lambda name: name == "model.h5"):  # last, because a run with a model is finished
                        if (fresh / name).exists():
                            (fresh / name).replace(self.path / name)
                    sync(self.path)

    def _leftovers(self) -> list[Path]:
        files = [part for name in FILES for part in self.path.glob(f".{name}.part-*")]
        return [*files, *self.checkpoints.glob(".*.part-*")]

    def check(self, force: bool, resume: bool) -> bool:
        ignored = {self.lock.path, *self._leftovers()}  # files of a job that was killed before it began
        present = self.path.is_dir() and not ignored.issuperset(self.path.iterdir())
        if force and resume:
            raise OptionError("force", force, "has no effect with", "resume")
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; --output must name a folder")
        config = self.path / CONFIG
        if present and not (force or resume):
            raise ConfigError(f"{self.path} exists already; choose another --output, or use --resume or --force")
        if present and not config.exists():
            raise ConfigError(f"{self.path} contains other files and no hpcml run (no {CONFIG}); choose another --output")
        return present

    def _clear(self) -> None:
        self.remove_checkpoints()
        for path in (*(self.path / name for name in FILES), *self._leftovers()):
            path.unlink(missing_ok=True)

    def remove_checkpoints(self) -> None:
        for pattern in ("state-*.h5", "tuning-*.h5", "start.h5", RESULTS, ".*.part-*"):
            for old in self.checkpoints.glob(pattern):
                old.unlink()
        with suppress(OSError):  # absent, or it contains the user's files
            self.checkpoints.rmdir()

    @contextmanager
    def discard_on_error(self) -> Iterator[None]:
        """Remove the files of a new run if it fails before training starts. Collective."""
        try:
            yield
        except HpcmlError:
            if self._fresh:
                self.discard()
            raise

    def discard(self) -> None:
        """Remove the run; an empty folder is removed on exit. Raises OSError."""
        self.log.file = None
        self._clear()

    def _check_same(self, config: RunConfig, earlier: dict[str, object]) -> None:
        current = tomllib.loads(to_toml(config.values()))
        of_command = {"method": "", "retrained-from": " (hpcml retrain)", "folds": " (hpcml tune)"}  # compared first
        keys = (current.keys() | earlier.keys()) - {"data", *map(option_flag, config.options.free)}
        for key in sorted(keys, key=lambda key: (key not in of_command, key)):
            if current.get(key, IF_NONE.get(key)) != earlier.get(key, IF_NONE.get(key)):
                difference = f"{key} = {earlier.get(key)!r}{of_command.get(key, '')}, not {current.get(key)!r}"
                raise ConfigError(f"{self.path}: this run had {difference}; resume with the same options")


def from_dict(kind: type[Kind], values: dict[str, object]) -> Kind:
    present = {
        field.name: values[option_flag(field.name)] for field in fields(cast("Any", kind)) if option_flag(field.name) in values
    }
    options = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in present.items()})
    options.validate()
    return options


def read_config(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise DataError(f"{file.parent}: not a run folder (no {file.name})")
    try:
        return tomllib.loads(read_small(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: damaged ({error}); start again with --force") from None
