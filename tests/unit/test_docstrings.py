"""The public docstrings are valid numpydoc, and their examples run."""

import doctest
import inspect
import shutil

import numpy as np
import pytest

import hpcml
from hpcml.commands.split import Split

# GL01: the summary stands on the line of the quotes, as everywhere here. ES01, SA01-SA04: an extended summary and "See Also" are
# written where they help. GL09, GL10: nothing is deprecated. RT02: a single result may have a name.
EXCLUDED = {"GL01", "GL09", "GL10", "ES01", "RT02", "SA01", "SA02", "SA03", "SA04"}
INTERNAL = {"hpcml.data.dataset"}  # methods that `Dataset` inherits for the package itself


def public_objects():
    """Yield name and object of exported functions and classes, and of the public methods of these classes."""
    for name in hpcml.__all__:
        exported = getattr(hpcml, name)
        if not isinstance(exported, str):
            yield name, exported
        for key in dir(exported) if inspect.isclass(exported) else ():
            owner = next(each for each in exported.__mro__ if key in vars(each))
            member = getattr(vars(owner)[key], "__func__", vars(owner)[key])
            is_ours = owner.__module__.startswith("hpcml.") and owner.__module__ not in INTERNAL
            if is_ours and not key.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{owner.__name__}.{key}", member


OBJECTS = dict(public_objects())
EXAMPLES = {
    name: inspect.getdoc(each) for name, each in [("hpcml", hpcml), *OBJECTS.items()] if ">>> " in (inspect.getdoc(each) or "")
}


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_is_complete(name):
    """With parameters and their types, result, errors, and an example for each function and class."""
    validation = pytest.importorskip("numpydoc.validate", reason="numpydoc is missing (pip install 'hpcml[test]')")
    from numpydoc.docscrape import get_doc_object

    excluded = EXCLUDED | ({"EX01"} if "." in name else set())
    assert [error for error in validation.validate(get_doc_object(OBJECTS[name]))["errors"] if error[0] not in excluded] == []


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A folder with a table, its dataset, a model of it, and the dataset with a further label."""
    folder = tmp_path_factory.mktemp("documents")
    topics = {"ship": "sea", "port": "sea", "corn": "farm", "rye": "farm"}
    rows = [(f"{word} {n}", topic) for word, topic in topics.items() for n in range(25)]
    for name, like, label in (("docs", None, ""), ("new", folder / "docs.h5", ";wet")):
        lines = (f"{n},{text},{topic}{label * (topic == 'sea')}\n" for n, (text, topic) in enumerate(rows))
        (folder / f"{name}.csv").write_text("id,text,topic\n" + "".join(lines))
        options = {
            "text": "text",
            "labels": "topic",
            "id": "id",
            "label_separator": ";",
            "like": like,
            "new_labels": like is not None,
        }
        hpcml.convert("csv", folder / f"{name}.csv", folder / f"{name}.h5", **options)
        Split(folder / f"{name}.h5", test_share=0.2, valid_share=0.2, force=True)()
    hpcml.train("dual", folder / "docs.h5", folder / "run")
    hpcml.threshold(folder / "run", folder / "docs.h5", "label")
    hpcml.calibrate(folder / "run", folder / "docs.h5")
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, documents, tmp_path, monkeypatch, capsys):
    if name == "report":
        pytest.importorskip("itables", reason="needs hpcml[report]")
    if name != "hpcml":
        shutil.copytree(documents, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names = {} if name == "hpcml" else {"hpcml": hpcml, "np": np}
    owner = name.partition(".")[0]  # a method's example uses names from the example of its class
    text = EXAMPLES[name] if name == owner else f"{EXAMPLES.get(owner, '')}\n\n{EXAMPLES[name]}"
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    with capsys.disabled():
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(example)
    assert results.failed == 0 and results.attempted > 0
