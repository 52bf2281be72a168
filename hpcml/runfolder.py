"""The folder of a training run: config.toml, history.csv, model.h5, log.txt, checkpoint/. Never overwritten by accident."""

from __future__ import annotations

import shutil
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType

from hpcml import __version__, mpi
from hpcml.config import TrainOptions, flag_of
from hpcml.errors import ConfigError, HpcmlError
from hpcml.log import Log

OURS = ("config.toml", "history.csv", "model.h5", "log.txt", "checkpoint")
# Options that may differ between a run and its continuation, because they do not change the result.
_FREE = {"checkpoint-every", "time-limit", "data"}


def to_toml(values: dict[str, object]) -> str:
    """Flat TOML of strings, numbers, truth values and lists of strings; None is left out."""

    def text(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (int, float)):
            return repr(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(text(v) for v in value) + "]"
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'

    return "".join(f"{key} = {text(value)}\n" for key, value in values.items() if value is not None)


class RunFolder:
    """The files of one run. Made by `open_run`."""

    def __init__(self, comm: mpi.Comm, path: Path, log: Log) -> None:
        self.comm, self.path, self.log = comm, path, log
        self.checkpoints = path / "checkpoint"
        self.model_part = self.checkpoints / "model.part.h5"
        self.model = path / "model.h5"
        self.history = path / "history.csv"

    @mpi.collective
    def prepare(self, config: dict[str, object], force: bool, resume: bool) -> bool:
        """Collective. Create, empty (`force`) or re-enter (`resume`) the folder; true if there is a run to continue.

        Raises ConfigError if the folder exists and neither is given, or if the run in it had other options.
        """
        continued = False
        with mpi.agreed(self.comm, f"creating {self.path}"):
            if self.comm.rank == 0:
                continued = self._prepare(config, force, resume)
        return self.comm.bcast(continued)

    def _prepare(self, config: dict[str, object], force: bool, resume: bool) -> bool:
        present = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        if present and not (force or resume):
            raise ConfigError(f"{self.path} exists already; choose another --output, or use --resume or --force")
        if present and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; --output must name a folder")
        if force and resume:
            raise ConfigError("--force starts anew and --resume continues; give only one of them")
        file = self.path / "config.toml"
        if resume and file.exists():
            self._check_same(config, tomllib.loads(file.read_text(encoding="utf-8")))
        elif present:
            self._clear()
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        if not (resume and file.exists()):
            file.write_text(f"# hpcml {__version__}\n{to_toml(config)}", encoding="utf-8")
        self.log.file = self.path / "log.txt"
        return resume and self.model_part.exists()

    def _clear(self) -> None:
        """Remove what runs write, and nothing else."""
        for name in OURS:
            old = self.path / name
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)

    @contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """Collective. A run that cannot even begin leaves nothing behind."""
        try:
            yield
        except HpcmlError:
            if self.comm.rank == 0:
                self._clear()
                with suppress(OSError):  # the user's own files may be in it
                    self.path.rmdir()
            raise

    def _check_same(self, config: dict[str, object], before: dict[str, object]) -> None:
        """Raise ConfigError naming the first option that a continued run had otherwise."""
        now = tomllib.loads(to_toml(config))
        for key in sorted((now.keys() | before.keys()) - _FREE):
            if now.get(key) != before.get(key):
                raise ConfigError(
                    f"{self.path}: this run had {key} = {before.get(key)!r}, not {now.get(key)!r}; resume with the same options"
                )


class StopSignals:
    """While entered, SIGTERM, SIGUSR1 and SIGINT only set `seen`; the loop stops at its next step."""

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> StopSignals:
        def note(_number: int, _frame: FrameType | None) -> None:
            self.seen = True

        try:
            self._before = {number: signal.signal(number, note) for number in self.SIGNALS}
        except ValueError:  # not in the main thread: signals stay with the caller
            self._before = {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def as_dict(options: TrainOptions) -> dict[str, object]:
    """The options by their flags' names, as `--config` reads them."""
    return {flag_of(field.name): getattr(options, field.name) for field in fields(options)}
