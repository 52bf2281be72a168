"""What is said of a misspelt word."""

from hpcml.errors import nearest, repeated

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
