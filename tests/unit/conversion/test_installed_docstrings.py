"""Docstrings as a corpus."""

from hpcml import mpi
from hpcml.conversion.docstrings import find_modules, flag_first_copies, parse_docstrings

CODE = b'''# -*- coding: latin-1 -*-
"""A module about \xe4 cats and dogs."""
import nothing_that_exists

class Cat:
    """One cat with four warm feet."""

    @property
    def feet(self):
        """How many feet there are now."""

    @feet.setter
    def feet(self, n):
        """Set the number of feet anew."""

    def short(self):
        """Too short."""

if True:
    try:
        async def run():
            """Run as long as it takes."""
            def inner():
                """An inner function with words enough."""
    except ImportError:
        def run():
            """Run, but only as a fallback."""
x = "\\d"
'''


def test_every_docstring_has_a_name_of_its_own():
    found = list(parse_docstrings("pets.cats", CODE))
    assert [(document.name, document.text) for document in found] == [
        ("pets.cats", "A module about ä cats and dogs."),
        ("pets.cats.Cat", "One cat with four warm feet."),
        ("pets.cats.Cat.feet", "How many feet there are now."),
        ("pets.cats.Cat.feet#2", "Set the number of feet anew."),
        ("pets.cats.run", "Run as long as it takes."),
        ("pets.cats.run.inner", "An inner function with words enough."),
        ("pets.cats.run#2", "Run, but only as a fallback."),
    ]
    assert {document.module for document in found} == {"pets.cats"}


def test_what_cannot_be_parsed_has_none(recwarn):
    for code in (b"print 'old'", b"\0", b"# coding: none-such\n", b"\xff", b"(" * 1000):
        assert list(parse_docstrings("m", code)) == []
    assert list(parse_docstrings("m", b"x = 1 is 1\n")) == []
    assert not recwarn.list


def test_installed_modules_are_found_once_and_without_tests():
    modules = [source.module for source in find_modules()]
    assert modules == sorted(set(modules))
    assert {"ast", "email.message", "numpy", "scipy.sparse", "sklearn.linear_model", "h5py", "numba.core.types"} <= set(modules)
    assert not any({"tests", "test", "site-packages"} & set(module.split(".")) for module in modules)


def test_only_the_first_of_equal_texts_is_kept():
    assert flag_first_copies(mpi.self_comm(), ["a", "b", "a", "\ud800", "b", "c"]) == [True, True, False, True, False, True]
    assert flag_first_copies(mpi.self_comm(), []) == []
