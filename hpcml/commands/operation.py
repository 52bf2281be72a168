"""The base classes of the commands, and their conversion to flags and to Python functions. `calibrate` is a short example.

The string below a field is its help. Fields before `KW_ONLY` are positional in Python; they are also positional on the command line
unless their `Parameter` has a name. `hpcml.options.Range`, `Only` and `NotWith` in the annotation of a field are checked before the
command starts. Type checkers, editors and `help` read the functions in `hpcml/__init__.pyi`, which `python -m launch.stub` writes.
"""

import inspect
import json
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from numbers import Real
from operator import methodcaller
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from cyclopts import Parameter, Token

from hpcml.errors import ConfigError, OptionError, nearest
from hpcml.options import Or, check_rules, default_value, iterate_types, option_help

if TYPE_CHECKING:
    from hpcml.log import Log
    from hpcml.mpi import Comm
    from hpcml.run.session import Session
    from hpcml.signals import StopSignals
else:  # these imports take time
    Log = Comm = Session = StopSignals = Any

R = TypeVar("R")
PathLike = Path
AnyModel = Annotated[Path, Or("Model", "ClassifierModel")]
Paths = tuple[Path, ...]
Strings = tuple[str, ...]
Floats = tuple[float, ...]
Integers = tuple[int, ...]
HIDDEN = Parameter(parse=False)  # a parameter of the Python function without a flag
OUTPUT = Parameter(name=["--output", "-o"])
SECTION = re.compile(r"\n\w+\n-+\n")  # heading of a numpydoc section
FLAG = re.compile(r"`[^`]*`|--(no-)?([a-z][a-z0-9-]*)")  # a flag in a help text; commands in backticks keep theirs
LITERAL, ITERABLE = re.compile(r"^Literal\[(.*)\]$"), re.compile(r"^Iterable\[(.*)\]$")
RAISES = {
    "ConfigError": "If an option is invalid, or does not apply to the model or the data.",
    "DataError": "If a file is damaged, or cannot be read or written.",
    "NonFiniteError": "If a score, a loss or a gradient is not a finite number.",
}
INTERRUPTED = {"Interrupted": "After a signal or the time limit, when a checkpoint has been written (`resume` continues)."}
RUN_ONLY = {"comm": "Comm", "log": "Log", "signals": "StopSignals"}  # the last parameters of a function, and their types
FLAG_ONLY = {"config"}  # fields without a parameter in Python


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[R]):
    """A command with its options; calling it runs the command."""

    comm: Annotated[Comm | None, HIDDEN] = None
    """MPI communicator whose ranks share the work. Default: this process only."""
    log: Annotated[Log | None, HIDDEN] = None
    """Receiver of the messages. Default: the logger `hpcml`."""

    on_command_line: ClassVar[Mapping[str, object]] = {}  # values that hidden fields have on the command line
    ends_itself: ClassVar[bool] = False  # the command checks for signals and ends in time
    results: ClassVar[Mapping[str, str]] = {}  # option -> type of the result if it is given; "": if none of them is
    files: ClassVar[Mapping[str, str]] = {"csv": "write_csv", "json": "write_json"}  # option -> method of the result that writes it
    needs_mpi: ClassVar[bool] = True  # False: the result is a text, and rank 0 prints it

    @classmethod
    def families(cls) -> Mapping[str, str]:
        """Return the titles of the methods or sources whose options differ; the first parameter selects one."""
        return {}

    @classmethod
    def options_for(cls, values: Mapping[str, Any]) -> tuple[type, str]:
        """Return the class of the field `options`, and the command whose help lists these options."""
        return typing.get_type_hints(cls, include_extras=True)["options"], cls.__module__.rpartition(".")[2]

    def can_resume(self) -> bool:
        """Return whether the command checks for signals, and its run folder `output` can be resumed."""
        return False

    def execute(self, session: Session) -> R:
        """Run the command and return its result. Collective over the session."""
        raise NotImplementedError

    def format_result(self, result: R) -> str:
        """Return the text to print; empty for a path, which the log names."""
        return "" if result is None or isinstance(result, Path) else str(result)

    def finish(self, session: Session, result: R) -> None:
        """Write rank 0's result to the files of `files`. Collective over the session."""
        from hpcml.mpi import run_on_root

        for option, method in self.files.items():
            if (path := getattr(self, option, None)) is not None:
                run_on_root(session.comm, f"writing {path}", partial(methodcaller(method, path), result))

    def check_options(self, *inputs: str) -> None:
        """Raise OptionError for an option that is out of range or has no effect; `inputs`: kinds of the inputs, if known."""
        check_rules(self, *inputs)

    def __call__(self) -> R:
        with python_session(self.comm, self.log, getattr(self, "signals", None)) as session:
            self.check_options()
            result = self.execute(session)
            self.finish(session, result)
            return result


@dataclass(frozen=True, kw_only=True)
class TrainingOperation(Operation[R]):
    """A command that trains into a run folder and writes checkpoints."""

    force: Annotated[bool, Parameter(negative="")] = False
    """Replace the run if the folder holds one."""
    resume: Annotated[bool, Parameter(negative="")] = False
    """Continue an interrupted run from its last checkpoint. The number of ranks may differ."""
    signals: Annotated[StopSignals | None, HIDDEN] = None
    """Signals that stop the run. Default: SIGTERM, SIGINT, SIGUSR1 and SIGHUP of this process."""

    def can_resume(self) -> bool:
        return True


@contextmanager
def python_session(comm: Comm | None, log: Log | None, signals: StopSignals | None = None) -> Iterator[Session]:
    """Open a session whose errors name parameters instead of flags. Collective over `comm`."""
    from hpcml.run.session import open_session

    try:
        with open_session(comm, log, signals) as session:
            yield session
    except OptionError as error:
        error.in_python = True
        raise


def format_help(kind: type) -> str:
    return SECTION.split(inspect.getdoc(kind) or "")[0].strip()


def make_command(kind: Any, texts: Mapping[str, str] | None = None, **preset: Any) -> Callable[..., Operation[Any]]:
    """Return a function for cyclopts that takes the flags of a command and returns the operation.

    A field that is a dataclass of options becomes flags; a dataclass in `preset` has their defaults. Other values of `preset` are
    constant and have no flag. `texts` replaces the help of fields.
    """
    hints, texts = typing.get_type_hints(kind, include_extras=True), {**option_help(kind), **(texts or {})}
    is_training = issubclass(kind, TrainingOperation)
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD if is_training else inspect.Parameter.POSITIONAL_ONLY
    parameters, constants = [], dict[str, Any](kind.on_command_line)
    for field in fields(kind):
        name, hint = field.name, hints[field.name]
        settings = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter)]
        if name in preset and not is_dataclass(preset[name]):
            constants[name] = preset[name]
            continue
        if any(setting.parse is False for setting in settings):
            continue
        default = default_value(field)
        if is_dataclass(hint) or name in preset:
            default = preset[name] if name in preset else hint()
            hint = Annotated[type(default), Parameter(name="*")]
        is_flag = field.kw_only or any(setting.name for setting in settings)
        kind_of_parameter: Any = inspect.Parameter.KEYWORD_ONLY if is_flag else positional
        item_type, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        if not is_flag and item_type in (Paths, Strings):
            kind_of_parameter, default = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.empty
            hint = Annotated[typing.get_args(item_type)[0], *extras] if extras else typing.get_args(item_type)[0]
        if not any(setting.help for setting in settings):
            hint = Annotated[hint, Parameter(help=texts[name])]
        default = inspect.Parameter.empty if default is MISSING else default
        parameters.append(inspect.Parameter(name, kind_of_parameter, default=default, annotation=hint))
    parameters.sort(key=lambda parameter: parameter.kind)
    signature = inspect.Signature(parameters)

    def command(*args: Any, **kwargs: Any) -> Operation[Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return kind(**constants, **bound.arguments)

    described: Any = command
    described.__signature__, described.__doc__ = signature, format_help(kind)
    described.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


class PythonParameter(NamedTuple):
    """A parameter of a Python function; `families` are the methods or sources with this option."""

    name: str
    kind: Any  # kind of inspect.Parameter
    types: tuple[str, ...]
    default: Any
    help: str
    families: tuple[str, ...] = ()


def import_operation(name: str) -> Any:
    """Return the class of a command: the only one that its module in `hpcml.commands` defines."""
    module = import_module(f"hpcml.commands.{name}")
    (kind,) = (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)
    return kind


@cache
def make_function(kind: type[Operation[R]], name: str) -> Callable[..., R]:
    """Return the Python function of a command, whose parameters are the fields."""
    cls: Any = kind
    names, known = [field.name for field in fields(cls) if not field.kw_only], {field.name for field in fields(cls)} - FLAG_ONLY
    required = {field.name for field in fields(cls) if default_value(field) is MISSING} - {"options"}

    def call(*args: Any, **kwargs: Any) -> R:
        values: dict[str, Any] = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or len(values) < len(args) + len(kwargs) or not required <= values.keys():
            return cls(*args, **kwargs)()  # raises Python's TypeError
        if "options" in known:
            options = {name: values.pop(name) for name in kwargs if name not in known or name == "options"}
            kind_of_options, command = cls.options_for(values)
            values["options"] = make_options(kind_of_options, command, options)
        return make_options(cls, call.__name__, values)()

    described: Any = call
    described.__name__ = described.__qualname__ = name
    described.__module__, described.kind = "hpcml", cls
    described.parameters = list(list_parameters(cls))
    described.__doc__ = _write_docstring(cls, described.parameters)
    parameters = [
        inspect.Parameter(each.name, each.kind, default=each.default, annotation=" | ".join(each.types))
        for each in described.parameters
    ]
    described.__signature__ = inspect.Signature(parameters, return_annotation=cls.execute.__annotations__["return"])
    return call


def list_parameters(kind: Any, *families: str) -> Iterator[PythonParameter]:
    """Yield the parameters of a function, with the options of these families (default: all); `...` if defaults differ."""
    parameters = sorted(_list_fields(kind), key=lambda each: (each.kind, each.name in RUN_ONLY))
    for each in parameters:
        if each.name != "options":
            yield each
        elif not kind.families():
            yield from _list_fields(kind.options_for({})[0])
        else:
            by_name: dict[str, dict[str, PythonParameter]] = {}
            for family in families or kind.families():
                for option in _list_fields(kind.options_for({parameters[0].name: family})[0]):
                    by_name.setdefault(option.name, {})[family] = option
            yield from map(_merge_families, by_name.values())


def _list_fields(kind: Any) -> Iterator[PythonParameter]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint, default = field.name, hints[field.name], default_value(field)
        if name in FLAG_ONLY:
            continue
        is_keyword = field.kw_only or not issubclass(kind, Operation)
        kind_of_parameter = inspect.Parameter.KEYWORD_ONLY if is_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        losses = getattr(kind, "losses", ()) if name == "loss" else ()
        types = [RUN_ONLY[name], "None"] if name in RUN_ONLY else _name_types(Literal[losses] if losses else hint)
        texts = [each.help for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter) and each.help]
        default = inspect.Parameter.empty if default is MISSING else default
        text = FLAG.sub(_name_parameter, texts[0] if texts else option_help(kind)[name])
        yield PythonParameter(name, kind_of_parameter, tuple(types), default, text)


def _name_parameter(flag: re.Match[str]) -> str:
    name = "lam" if flag[2] == "lambda" else (flag[2] or "").replace("-", "_")
    return f"`{name}{'=False' if flag[1] else ''}`" if name else flag[0]


def _merge_families(option: dict[str, PythonParameter]) -> PythonParameter:
    first, texts = next(iter(option.values())), dict[str, list[str]]()
    for family, each in option.items():
        texts.setdefault(each.help, []).append(family)
    text = " ".join(f"For {', '.join(families)}: {text}" for text, families in texts.items())
    default = first.default if all(each.default == first.default for each in option.values()) else ...
    types = dict.fromkeys(name for each in option.values() for name in each.types)
    return PythonParameter(first.name, first.kind, tuple(types), default, text, tuple(option))


def _name_types(hint: Any, *others: str) -> list[str]:
    """Return the names of the types that a function takes: also `str` for a path, and one value for several."""
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind is Annotated:
        others = next((each.types for each in hint.__metadata__ if isinstance(each, Or)), ())
        return _name_types(parts[0], *others)
    if kind is Literal:
        return [f"Literal[{', '.join(map(json.dumps, parts))}]"]
    if kind is tuple:
        each = _name_types(parts[0], *others)
        return [*each, f"Iterable[{' | '.join(each)}]"]
    if parts:
        return [name for part in parts for name in _name_types(part, *others)]
    names = {Path: ["Path", "str", *others], str: ["str", *others], NoneType: ["None"]}
    return names.get(hint, [getattr(hint, "__name__", "Any")])


def _write_docstring(kind: Any, parameters: Iterable[PythonParameter]) -> str | None:
    """Return a numpydoc docstring; the docstring of `execute` describes the result. None with python -OO."""
    text, returns = inspect.getdoc(kind), inspect.getdoc(kind.execute)
    if text is None or returns is None:
        return None
    about, *examples = re.split(r"\n(?=Examples\n)", text)
    lines = [about.rstrip(), "", "Collective over `comm`.", "", "Parameters", "----------"]
    for each in parameters:
        types = [LITERAL.sub(r"{\1}", ITERABLE.sub(r"iterable of \1", name)) for name in each.types]
        default = {inspect.Parameter.empty: "", ...: ", optional"}.get(each.default, f", default {each.default!r}")
        lines += [f"{each.name} : {' or '.join(types)}{default}", textwrap.indent(textwrap.fill(each.help, 96), "    ")]
    lines += ["", "Returns", "-------", kind.execute.__annotations__["return"]]
    lines += [f"    {line}" for line in returns.replace(" Collective over the session.", "").splitlines()]
    lines += ["", "Raises", "------"]
    for error, reason in (RAISES | (INTERRUPTED if issubclass(kind, TrainingOperation) else {})).items():
        lines += [error, f"    {reason}"]
    return "\n".join([*lines, "", *examples]).rstrip() + "\n"


def make_options(kind: type[Any], command: str, values: Mapping[str, Any]) -> Any:
    """Return a dataclass of options with values from Python. Raises ConfigError for an unknown name or a wrong type.

    A path may be a string, a single value may replace a sequence, and a number the text of a flag. A string for several names is
    parsed as on the command line; a sequence holds the names as they are. `command` is the one whose help lists the options.
    """
    known, hints = {option.name: option for option in fields(kind)}, typing.get_type_hints(kind)
    settings: dict[str, list[Any]] = {
        name: [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter)]
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
    }
    converted: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = nearest(str(name), known, f"hpcml {command} --help")
            raise ConfigError(f"{command.rpartition(' ')[2]} has no option {name!r}; {near}")
        leaves = set(iterate_types(hints[name]))
        if value is None or Any in leaves:
            converted[name] = value
        elif not any(typing.get_origin(part) is tuple for part in (hints[name], *typing.get_args(hints[name]))):
            converted[name] = _convert_value(name, value, leaves)
        elif isinstance(value, str) and (read := next((each.converter for each in settings[name] if each.converter), None)):
            converted[name] = read(tuple, [Token(value=value)])
        else:
            items = [value] if isinstance(value, (str, Path, Real)) or not isinstance(value, Iterable) else value
            converted[name] = tuple(_convert_value(name, each, leaves) for each in items)
    return kind(**converted)


def _convert_value(name: str, value: Any, leaves: set[Any]) -> Any:
    if Path in leaves:
        return Path(value) if isinstance(value, str) or hasattr(value, "__fspath__") else value
    if str in leaves:
        expected, is_wrong = "a text or a number", isinstance(value, bool)
    else:
        expected = "True or False" if bool in leaves else "a number"
        is_wrong = isinstance(value, str if bool in leaves else (str, bool)) and bool(leaves & {bool, int, float})
    if is_wrong:
        raise ConfigError(f"{name}={value!r}: expected {expected}")
    return f"{value}" if str in leaves and isinstance(value, Real) else value


def check_outputs(session: Session, force: bool, inputs: Iterable[object], **outputs: PathLike | None) -> None:
    """Raise ConfigError on all ranks unless these files can be written; None is skipped."""
    from hpcml.files.atomic import check_output
    from hpcml.mpi import run_on_root

    def check() -> None:
        option_of: dict[Path, str] = {}
        for name, output in outputs.items():
            if output is not None:
                other = option_of.setdefault(output, name)
                if other != name:
                    raise OptionError(name, output, "names the same file as", other)
                check_output(output, force, [path for path in inputs if isinstance(path, Path)])

    run_on_root(session.comm, "checking the output", check)
