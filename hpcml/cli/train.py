"""The commands that train: `hpcml train METHOD`, `tune`, `retrain`."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from hpcml.cli.groups import arrange, methods_by_group
from hpcml.cli.session import Anew, Data, Here, Output, Resume
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, Method, method_named, users_of
from hpcml.options import flag_of
from hpcml.tuning.options import TuneOptions


def _command(method: Method) -> Callable[..., None]:
    def command(
        data: Annotated[Path, Parameter(help=method.takes)],
        *,
        output: Output,
        options: method.options = method.options(),  # type: ignore[name-defined]  # noqa: B008 - frozen
        config: Path | None = None,
        force: Anew = False,
        resume: Resume = False,
        session: Here,
    ) -> None:
        """Train into a run folder.

        Parameters
        ----------
        output:
            The run folder; must not exist without --resume or --force.
        config:
            A TOML file with any of these options; flags win over it.
        """
        from hpcml.methods.registry import train
        from hpcml.run.session import Target

        session.log.report(str(train(method.name, session, data, Target(output, force, resume), options)))

    function: Any = command
    function.resumable = "checkpoint_every" in method.option_names
    return command


def train_app() -> App:
    """`hpcml train`, with a command for each method."""
    app = App(name="train", help="Train a model of each label, or one of all classes.")
    for name, method in METHODS.items():
        app.command(_command(method), name=name, help=f"{method.title}.\n\nTrains into a run folder.")
    arrange(app, methods_by_group())
    return app


def explain(tokens: list[str]) -> None:
    """Raise ConfigError for what is wrong about the method on a command line of `hpcml train`."""
    name = next(iter(tokens[1:2]), "")
    if not name or name.startswith("-"):
        raise ConfigError(
            "train with which method? hpcml train METHOD DATA --output RUN; hpcml train says what each is for: "
            f"{', '.join(chain.from_iterable(methods_by_group().values()))}"
        )
    method = method_named(name)
    flags = {flag_of(option): option for each in METHODS.values() for option in each.option_names}
    for token in tokens[2:]:
        given = token.partition("=")[0].removeprefix("--")
        flag = given if given in flags else given.removeprefix("no-")
        if token.startswith("--") and flag in flags and flags[flag] not in method.option_names:
            raise ConfigError(f"--{given} has no effect on {name}, it is for {', '.join(users_of(flags[flag]))}; leave it out")


def tune(
    data: Data,
    *,
    output: Output,
    options: TuneOptions = TuneOptions(),  # noqa: B008 - frozen
    force: Anew = False,
    resume: Resume = False,
    session: Here,
) -> None:
    """Choose λ, weight and threshold of each label, and train.

    λ and the weight of positive rows are chosen by cross-validation on the training rows. The model
    also gets a threshold and a sigmoid (for predict --probabilities) for each label, from the
    scores of held-out folds.

    Parameters
    ----------
    output:
        The run folder; must not exist without --resume or --force. Besides what hpcml train writes
        it gets tuning.csv (the settings) and choice.csv (the labels).
    """
    from hpcml.run.session import Target
    from hpcml.tuning.tune import tune as work

    session.log.report(str(work(session, data, Target(output, force, resume), options).trained))


def retrain(run: Path, data: Path, *, output: Output, force: Anew = False, resume: Resume = False, session: Here) -> None:
    """Train again when the data have changed, and only what has.

    The options are those of a finished run of `train dual`. If the documents are the same, labels
    with the same positive rows keep their models, and only the others are trained. If documents
    came or went, all are trained. Either way the model is the file that training anew gives.

    Parameters
    ----------
    run:
        The run folder of a finished `hpcml train dual`.
    data:
        A dataset with the features of the run's, made with `hpcml convert --like` (and
        --new-labels).
    output:
        The new run folder; must not exist without --resume or --force.
    """
    from hpcml.methods.retrain import retrain as work
    from hpcml.run.session import Target

    session.log.report(str(work(session, run, data, Target(output, force, resume))))


tune.resumable = retrain.resumable = True  # type: ignore[attr-defined]
