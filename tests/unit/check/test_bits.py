"""The shipped digests cover every training, and are compared result by result."""

from hpcml.check import bits
from hpcml.methods.registry import METHODS


def test_every_method_has_shipped_digests():
    names = {bits.name_training(*each) for each in bits.TRAININGS} | {f"tune {bits.name_training(*each)}" for each in bits.TUNED}
    shipped = bits.read_shipped()
    assert shipped.keys() == names | {"convert jsonl", "convert svmlight"}
    assert {method for method, _ in bits.TRAININGS} == METHODS.keys()
    results = {"model", "scores", "measures", "thresholds"}
    assert all(shipped[name].keys() - {"sigmoids", "probabilities"} == results for name in names)


def test_difference_names_the_results():
    expected = {"model": "a", "scores": "b", "measures": "c"}
    assert bits.describe_difference(expected, expected) == ""
    assert bits.describe_difference(expected | {"scores": "x", "measures": "y"}, expected) == "differs: scores, measures"
    assert bits.describe_difference(expected, {"model": "a", "scores": "b"}) == "differs: measures"
    assert bits.describe_difference(expected, None) == "is new"


def test_name_of_a_training_is_its_command_line():
    assert bits.name_training("psbml", {"base": ("tree",), "cycles": 2}) == "psbml --base tree --cycles 2"
    assert bits.name_training("pegasos", {"max_steps": 50, "voted": True}) == "pegasos --max-steps 50 --voted"
    assert bits.find_package("psbml --base linear-svm --cycles 2", bits.EXTERNAL) == "sklearn"
    assert bits.find_package("psbml --base tree --cycles 2", bits.EXTERNAL) is None
