"""Modules of other packages that hpcml's program hardly ever needs, but that libraries import: they wait until they are used.

scikit-learn alone takes 1.4 s to import, of which 1.1 s are scipy.stats, pandas, all measures and all learners by neighbours. A
module of DEFERRED is made empty, and filled when one of its names is asked for; its submodules can be imported without it. A
package of ABSENT, which libraries import only to serve those who have it, is as if it were not installed.

Only the program does so (`hpcml.__main__`), never a process of somebody else that imports hpcml.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

DEFERRED = frozenset(
    {
        *("asyncio", "numpy.f2py", "numpy.testing", "scipy.linalg", "scipy.sparse.linalg", "scipy.stats"),
        *("sklearn.metrics", "sklearn.neighbors"),
    }
)
ABSENT = frozenset({"cffi", "pandas"})


class _Deferred(ModuleType):
    """A module that is empty yet: Python asks `__getattr__` for what it does not find."""

    def __getattr__(self, name: str) -> Any:
        spec: ModuleSpec = self.__dict__["__spec__"]
        loader: Any = spec.loader
        with loader.lock:
            if type(self) is _Deferred:
                object.__setattr__(self, "__class__", ModuleType)  # from here on, so that the module can look at itself
                spec.loader = self.__dict__["__loader__"] = loader.inner
                try:
                    loader.inner.exec_module(self)
                except BaseException:
                    self.__class__, spec.loader = _Deferred, loader
                    raise
        return getattr(self, name)


class _Later(Loader):
    """Lets a module's own loader fill it when it is used."""

    def __init__(self, inner: Loader) -> None:
        self.inner, self.lock = inner, threading.RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred


class _Finder(MetaPathFinder):
    """Finds what DEFERRED and ABSENT name."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in ABSENT:
            raise ModuleNotFoundError(f"{fullname} is not used here", name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec


def defer() -> None:
    """From now on, in this process, let modules of DEFERRED wait, and leave out those of ABSENT."""
    sys.meta_path.insert(0, _Finder())
