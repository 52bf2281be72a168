"""Deferred import of modules that hpcml rarely needs but that its dependencies import.

scikit-learn alone takes 1.4 s to import, of which 1.1 s are scipy.stats, pandas, all measures and all neighbour-based learners. A
module of DEFERRED is created empty and executed when one of its names is requested; its submodules can be imported without it. A
package of ABSENT, which libraries import only to support its users, appears to be not installed.

Only the program does this (`hpcml.__main__`), never another process that imports hpcml.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

DEFERRED = {"asyncio", "numpy.f2py", "numpy.testing", "sklearn.metrics", "sklearn.neighbors"}
DEFERRED |= {"scipy.linalg", "scipy.sparse", "scipy.sparse.linalg", "scipy.stats"}
ABSENT = frozenset({"cffi", "pandas"})


class _Deferred(ModuleType):
    """A module that is not executed yet: Python calls `__getattr__` for missing names."""

    def __getattr__(self, name: str) -> Any:
        spec: ModuleSpec = self.__dict__["__spec__"]
        loader: Any = spec.loader
        with loader.lock:
            if type(self) is _Deferred:
                object.__setattr__(self, "__class__", ModuleType)  # before execution, so that the module can access its own names
                spec.loader = self.__dict__["__loader__"] = loader.inner
                try:
                    loader.inner.exec_module(self)
                except BaseException:
                    self.__class__, spec.loader = _Deferred, loader
                    raise
        return getattr(self, name)


class _Later(Loader):
    def __init__(self, inner: Loader) -> None:
        self.inner, self.lock = inner, threading.RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in ABSENT:
            raise ModuleNotFoundError(f"{fullname} is not used by hpcml", name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec


def defer() -> None:
    sys.meta_path.insert(0, _Finder())
