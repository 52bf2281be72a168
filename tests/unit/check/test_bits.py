"""The digests that ship: of everything that is trained, and compared by what was made."""

from hpcml.check import bits
from hpcml.methods.registry import METHODS


def test_every_method_has_digests_that_ship():
    names = {bits.title(*each) for each in bits.TRAININGS} | {f"tune {bits.title(*each)}" for each in bits.TUNED}
    assert bits.shipped().keys() == names | {"convert jsonl", "convert svmlight"}
    assert {method for method, _ in bits.TRAININGS} == METHODS.keys()
    of_a_model = {"model", "scores", "measures", "thresholds"}
    for name, parts in bits.shipped().items():
        if not name.startswith("convert"):
            assert parts.keys() - {"sigmoids", "probabilities"} == of_a_model, name


def test_it_is_said_what_differs():
    expected = {"model": "a", "scores": "b", "measures": "c"}
    assert bits.difference(expected, expected) == ""
    assert bits.difference(expected | {"scores": "x", "measures": "y"}, expected) == "differs: scores, measures"
    assert bits.difference(expected, {"model": "a", "scores": "b"}) == "differs: measures"
    assert bits.difference(expected, None) == "is new"


def test_names_are_command_lines():
    assert bits.title("psbml", {"base": ("tree",), "cycles": 2}) == "psbml --base tree --cycles 2"
    assert bits.title("pegasos", {"max_steps": 50, "voted": True}) == "pegasos --max-steps 50 --voted"
    assert bits.package_of("psbml --base linear-svm --cycles 2", bits.OTHERS) == "sklearn"
    assert bits.package_of("psbml --base tree --cycles 2", bits.OTHERS) is None
