"""Suggestions for misspelt names."""

import pytest

from hpcml.cli import app as cli
from hpcml.errors import ConfigError, nearest, repeated

MANY = [f"name-{letter}" for letter in "abcdefgh"]


def test_a_near_word_or_few_or_who_lists_them():
    assert nearest("name-i", MANY) in {f"did you mean {name!r}?" for name in MANY}
    assert nearest("zzz", MANY[:3]) == "known: name-a, name-b, name-c"
    assert nearest("zzz", MANY) == ""
    assert nearest("TITLE", [*MANY, " Title", "title b"]) == "did you mean ' Title'?"
    assert nearest("zzz", MANY, "hpcml cv --help") == "run `hpcml cv --help` for the list"


class Counted(str):
    """A name that counts with how many it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_a_repeated_name_is_found_without_comparing_all_with_all():
    names = [Counted(number) for number in range(10_000)]
    assert repeated(names) is None
    assert repeated([*names, Counted("17")]) == "17"
    assert Counted.comparisons < 100 * len(names)


def refused(*tokens):
    with pytest.raises(ConfigError) as error:
        cli.run(list(tokens), lambda: pytest.fail("it ran"))
    return str(error.value)


def test_where_nothing_is_near_the_sentence_is_short_and_says_where_to_look():
    train = ("train", "dual", "x.h5", "-o", "y")
    assert refused(*train, "--zzz") == "Unknown option: --zzz. `hpcml train dual --help` lists the options."
    assert refused(*train, "--tol", "1") == "Unknown option: --tol. Did you mean --dual-tol?"
    for tokens, name in ((("threshold", "r", "d.h5"), "--measure"), (("predict", "r", "d.h5", "-o", "y.csv", "--top"), "--top")):
        assert refused(*tokens) == f"{name}: missing, but required; `hpcml {tokens[0]} --help` describes it"
    assert refused("train", "zzz", "x.h5") == "no method 'zzz'; `hpcml train --help` lists what there is"
