"""A command, declared once: the base of the classes in this folder.

    @dataclass(frozen=True)
    class Calibrate(Operation["CalibrationReport"]):
        \"\"\"Fit a sigmoid to the scores of each label.\"\"\"

        model: Annotated[AnyModel, …]
        data: PathLike
        _: KW_ONLY
        split: str | None = None
        \"\"\"Rows that did not train the model: a split of the dataset, or all. Default: valid.\"\"\"

        def execute(self, session: Session) -> CalibrationReport: …

    calibrate = function(Calibrate)

The text behind a field is its help. Fields before `KW_ONLY` are positional in Python; on the command line they are positional, too,
unless their `Parameter` has a name. `hpcml.options.Range`, `Only` and `NotWith` in the annotation of a field are checked before the
work. Type checkers and editors see the functions in `hpcml/__init__.pyi`, which `python -m launch.stub` writes.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from numbers import Real
from operator import methodcaller
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import Parameter, Token

from hpcml import loading
from hpcml.errors import ConfigError, OptionError, nearest
from hpcml.options import Or, check_rules, default_of, help_of, iterate_types

if TYPE_CHECKING:
    from hpcml.log import Log
    from hpcml.mpi import Comm
    from hpcml.run.session import Session
    from hpcml.signals import StopSignals
else:  # without the imports
    Log = Comm = Session = StopSignals = Any

R = TypeVar("R")
PathLike = Path
AnyModel = Annotated[Path, Or("Model", "ClassifierModel")]
Paths = tuple[Path, ...]
Strings = tuple[str, ...]
Floats = tuple[float, ...]
Integers = tuple[int, ...]
HIDDEN = Parameter(parse=False)  # a parameter for Python that is no flag
OUTPUT = Parameter(name=["--output", "-o"])
SECTION = re.compile(r"\n\w+\n-+\n")  # of a numpydoc text
FAILURES = "If the options, the model and the data do not fit, or a file cannot be read or written."
RUN_ONLY = {"comm": "Comm", "log": "Log", "signals": "StopSignals"}  # the last parameters of a function, and their types
FLAG_ONLY = {"config"}  # fields that are no parameters of a function


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[R]):
    """A command with its options; calling it does the work."""

    comm: Annotated[Comm | None, HIDDEN] = None
    """The ranks that take part. Default: this process alone."""
    log: Annotated[Log | None, HIDDEN] = None
    """Receives the messages. Default: the logger `hpcml`."""

    on_command_line: ClassVar[Mapping[str, object]] = {}  # values of hidden fields there
    ends_itself: ClassVar[bool] = False  # the work checks for signals and ends in time
    results: ClassVar[Mapping[str, str]] = {}  # types of the result by the option that decides; "": without any of these

    @classmethod
    def families(cls) -> Mapping[str, str]:
        """Return the methods or sources with options of their own, which the first parameter names, and their titles."""
        return {}

    needs_mpi: ClassVar[bool] = True  # without, the result is a text that rank 0 prints

    @classmethod
    def options_for(cls, given: Mapping[str, Any]) -> tuple[type, str]:
        """Return the class of the field `options`, and the command that lists its options."""
        return get_type_hints(cls, include_extras=True)["options"], cls.__module__.rpartition(".")[2]

    def can_resume(self) -> bool:
        """Whether the work checks for signals, and a run folder `output` can be resumed."""
        return False

    def execute(self, session: Session) -> R:
        """Do the work and return its result. Collective over the session."""
        raise NotImplementedError

    def format_result(self, result: R) -> str:
        """Return what the command prints: nothing of a path, which the log names."""
        return "" if result is None or isinstance(result, Path) else str(result)

    def finish(self, session: Session, result: R) -> None:
        """Write rank 0's result to the files of the options `csv` and `json`. Raise its error on all ranks."""
        from hpcml.mpi import run_on_root

        for kind in ("csv", "json"):
            if (path := getattr(self, kind, None)) is not None:
                run_on_root(session.comm, f"writing {path}", partial(methodcaller(f"write_{kind}", path), result))

    def check_options(self, *inputs: str) -> None:
        """Raise OptionError for an option out of its range or without effect; `inputs`: kinds of the inputs, if known."""
        check_rules(self, *inputs)

    def __call__(self) -> R:
        """Do the work for Python. Collective over `comm`."""
        with python_session(self.comm, self.log, getattr(self, "signals", None)) as session:
            self.check_options()
            result = self.execute(session)
            self.finish(session, result)
            return result


@dataclass(frozen=True, kw_only=True)
class TrainingOperation(Operation[R]):
    """A command that trains into a run folder, with checkpoints."""

    force: Annotated[bool, Parameter(negative="")] = False
    """Start anew in an existing run folder."""
    resume: Annotated[bool, Parameter(negative="")] = False
    """Continue an interrupted run, on any number of ranks."""
    signals: Annotated[StopSignals | None, HIDDEN] = None
    """Stops the run. Default: the signals that come."""

    def can_resume(self) -> bool:
        """Whether there are checkpoints."""
        return True


@contextmanager
def python_session(comm: Comm | None, log: Log | None, signals: StopSignals | None = None) -> Iterator[Session]:
    """Open a session whose errors name parameters. Collective over `comm`."""
    from hpcml.run.session import session_of

    try:
        with session_of(comm, log, signals) as session:
            yield session
    except OptionError as error:
        error.in_python = True
        raise


def help_text(kind: type) -> str:
    """Return the documentation of a command without the sections that are for Python."""
    return SECTION.split(inspect.getdoc(kind) or "")[0].strip()


def command_of(kind: Any, texts: Mapping[str, str] | None = None, **given: Any) -> Callable[..., Operation[Any]]:
    """Return a function with the parameters of the command line that makes the operation.

    A field that is a dataclass of options becomes flags. Of `given`, such an object has their defaults; another value is set and is
    no flag. `texts` replaces the help of some fields.
    """
    hints, texts = get_type_hints(kind, include_extras=True), {**help_of(kind), **(texts or {})}
    positional = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD if issubclass(kind, TrainingOperation) else inspect.Parameter.POSITIONAL_ONLY
    )
    parameters, fixed = [], dict[str, Any](kind.on_command_line)
    for field in fields(kind):
        name, hint = field.name, hints[field.name]
        settings = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter)]
        if name in given and not is_dataclass(given[name]):
            fixed[name] = given[name]
            continue
        if any(setting.parse is False for setting in settings):
            continue
        default = default_of(field)
        if is_dataclass(hint) or name in given:
            default = given[name] if name in given else hint()
            hint = Annotated[type(default), Parameter(name="*")]
        is_flag = field.kw_only or any(setting.name for setting in settings)
        place: Any = inspect.Parameter.KEYWORD_ONLY if is_flag else positional
        several, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if not is_flag and several in (Paths, Strings):
            place, default = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.empty
            hint = Annotated[get_args(several)[0], *extras] if extras else get_args(several)[0]
        if not any(setting.help for setting in settings):
            hint = Annotated[hint, Parameter(help=texts[name])]
        default = inspect.Parameter.empty if default is MISSING else default
        parameters.append(inspect.Parameter(name, place, default=default, annotation=hint))
    parameters.sort(key=lambda parameter: parameter.kind)
    signature = inspect.Signature(parameters)

    def command(*args: Any, **kwargs: Any) -> Operation[Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return kind(**fixed, **bound.arguments)

    made: Any = command
    made.__signature__, made.__doc__ = signature, help_text(kind)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


class PythonParameter(NamedTuple):
    """A parameter of a function for Python; of an option of methods or sources, also those that have it."""

    name: str
    place: Any  # as of inspect.Parameter
    types: tuple[str, ...]
    default: Any
    help: str
    families: tuple[str, ...] = ()


def function(kind: type[Operation[R]], name: str = "") -> Callable[..., R]:
    """Return the function for Python: the parameters are the fields. Default name: that of the module."""
    made: Any = kind
    names, known = [field.name for field in fields(made) if not field.kw_only], {field.name for field in fields(made)} - FLAG_ONLY
    required = {field.name for field in fields(made) if default_of(field) is MISSING} - {"options"}

    def call(*args: Any, **kwargs: Any) -> R:
        given: dict[str, Any] = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or len(given) < len(args) + len(kwargs) or not required <= given.keys():
            return made(*args, **kwargs)()  # Python says what is wrong
        if "options" in known:
            options = {name: given.pop(name) for name in kwargs if name not in known or name == "options"}
            kind_of_options, command = made.options_for(given)
            given["options"] = make_options(kind_of_options, command, options)
        return make_options(made, call.__name__, given)()

    if loading.in_program:  # the command line needs no documentation of functions
        return call
    described: Any = call
    described.__name__ = described.__qualname__ = name or made.__module__.rpartition(".")[2]
    described.__module__, described.kind = made.__module__, kind
    described.parameters = list(parameters_of(made))
    described.__doc__ = _documentation(made, described.parameters)
    shown = [
        inspect.Parameter(each.name, each.place, default=each.default, annotation=" | ".join(each.types))
        for each in described.parameters
    ]
    described.__signature__ = inspect.Signature(shown, return_annotation=made.execute.__annotations__["return"])
    return call


def parameters_of(kind: Any, *families: str) -> Iterator[PythonParameter]:
    """Yield the parameters of a function, with the options of these methods or sources (default: of all).

    An option has every type that it has in one of them. Where its defaults differ, `...` stands for them.
    """
    own = sorted(_field_parameters(kind), key=lambda each: (each.place, each.name in RUN_ONLY))
    for each in own:
        if each.name != "options":
            yield each
        elif not kind.families():
            yield from _field_parameters(kind.options_for({})[0])
        else:
            found: dict[str, dict[str, PythonParameter]] = {}
            for family in families or kind.families():
                for option in _field_parameters(kind.options_for({own[0].name: family})[0]):
                    found.setdefault(option.name, {})[family] = option
            yield from map(_merge_families, found.values())


def _field_parameters(kind: Any) -> Iterator[PythonParameter]:
    """Yield the fields of a command, or of the options of one, as parameters."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint, default = field.name, hints[field.name], default_of(field)
        if name in FLAG_ONLY:
            continue
        is_keyword = field.kw_only or not issubclass(kind, Operation)
        place = inspect.Parameter.KEYWORD_ONLY if is_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        losses = getattr(kind, "losses", ()) if name == "loss" else ()
        types = [RUN_ONLY[name], "None"] if name in RUN_ONLY else _type_names(Literal[losses] if losses else hint)
        texts = [each.help for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter) and each.help]
        default = inspect.Parameter.empty if default is MISSING else default
        yield PythonParameter(name, place, tuple(types), default, texts[0] if texts else help_of(kind)[name])


def _merge_families(option: dict[str, PythonParameter]) -> PythonParameter:
    """Return an option of several methods or sources as one parameter."""
    first, texts = next(iter(option.values())), dict[str, list[str]]()
    for family, each in option.items():
        texts.setdefault(each.help, []).append(family)
    text = " ".join(f"Of {', '.join(families)}: {text}" for text, families in texts.items())
    default = first.default if all(each.default == first.default for each in option.values()) else ...
    types = dict.fromkeys(name for each in option.values() for name in each.types)
    return PythonParameter(first.name, first.place, tuple(types), default, text, tuple(option))


def _type_names(hint: Any, *others: str) -> list[str]:
    """Return the types of an option that a function takes: a path also as a text, and one value for several."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        others = next((each.types for each in hint.__metadata__ if isinstance(each, Or)), ())
        return _type_names(parts[0], *others)
    if kind is Literal:
        return [f"Literal[{', '.join(map(json.dumps, parts))}]"]
    if kind is tuple:
        each = _type_names(parts[0], *others)
        return [*each, f"Iterable[{' | '.join(each)}]"]
    if parts:
        return [name for part in parts for name in _type_names(part, *others)]
    names = {Path: ["Path", "str", *others], str: ["str", *others], NoneType: ["None"]}
    return names.get(hint, [getattr(hint, "__name__", "Any")])


def _documentation(kind: Any, parameters: Iterable[PythonParameter]) -> str | None:
    """Return a numpydoc text: the fields are the parameters, `execute` says what is returned; None as with python -OO."""
    text, returned = inspect.getdoc(kind), inspect.getdoc(kind.execute)
    if text is None or returned is None:
        return None
    about, *examples = re.split(r"\n(?=Examples\n)", text)
    lines = [about, "Collective over `comm`.", "", "Parameters", "----------"]
    for each in parameters:
        lines += [each.name, textwrap.indent(textwrap.fill(each.help, 96), "    ")]
    lines += ["", "Returns", "-------", kind.execute.__annotations__["return"]]
    lines += [f"    {line}" for line in returned.replace(" Collective over the session.", "").splitlines()]
    lines += ["", "Raises", "------", "ConfigError, DataError, NonFiniteError", f"    {FAILURES}", "", *examples]
    return "\n".join(lines)


def make_options(kind: type[Any], command: str, given: Mapping[str, Any]) -> Any:
    """Return the dataclass with these fields, as Python gives them. `command` lists the options.

    A path may be a string, one value may stand for several, and a number for the text that a flag
    takes. One text is a record of names, as on the command line; a sequence holds the names as they are. Raises ConfigError.
    """
    known, hints = {option.name: option for option in fields(kind)}, get_type_hints(kind)
    settings: dict[str, list[Any]] = {
        name: [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter)]
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            near = nearest(str(name), known, f"hpcml {command} --help")
            raise ConfigError(f"{command.rpartition(' ')[2]} has no option {name!r}; {near}")
        leaves = set(iterate_types(hints[name]))
        if value is None or Any in leaves:
            found[name] = value
        elif not any(get_origin(part) is tuple for part in (hints[name], *get_args(hints[name]))):
            found[name] = _converted(name, value, leaves)
        elif isinstance(value, str) and (read := next((each.converter for each in settings[name] if each.converter), None)):
            found[name] = read(tuple, [Token(value=value)])
        else:
            values = [value] if isinstance(value, (str, Path, Real)) or not isinstance(value, Iterable) else value
            found[name] = tuple(_converted(name, each, leaves) for each in values)
    return kind(**found)


def _converted(name: str, value: Any, leaves: set[Any]) -> Any:
    """Return a value for an option of these types. Raises ConfigError for one of another type."""
    if Path in leaves:
        return Path(value) if isinstance(value, str) else value
    if str in leaves:
        expected, wrong = "a text or a number", isinstance(value, bool)
    else:
        expected = "True or False" if bool in leaves else "a number"
        wrong = isinstance(value, str if bool in leaves else (str, bool)) and bool(leaves & {bool, int, float})
    if wrong:
        raise ConfigError(f"{name}={value!r}: expected {expected}")
    return f"{value}" if str in leaves and isinstance(value, Real) else value


def check_files(session: Session, force: bool, inputs: Iterable[object], **outputs: PathLike | None) -> None:
    """Raise ConfigError, on all ranks, unless these files can be written; None is left out."""
    from hpcml.files.atomic import check_output
    from hpcml.mpi import run_on_root

    paths = [Path(path) for path in inputs if isinstance(path, (str, Path))]

    def check() -> None:
        option_of: dict[Path, str] = {}
        for name, output in outputs.items():
            if output is not None:
                other = option_of.setdefault(Path(output), name)
                if other != name:
                    raise ConfigError(f"--{other} {output} and --{name} {output} are one file; choose two names")
                check_output(Path(output), force, paths)

    run_on_root(session.comm, "checking the output", check)


def path_of(path: PathLike | None) -> Path | None:
    """Return a path that may be left out."""
    return None if path is None else Path(path)


def paths_of(paths: Paths) -> list[Path]:
    """Return one or several paths as a list."""
    return [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
