"""Spack package of rich-rst, which cyclopts uses and Spack lacks."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyRichRst(PythonPackage):
    """reStructuredText on a terminal."""

    pypi = "rich-rst/rich_rst-2.2.0.tar.gz"

    license("MIT")

    version("2.2.0", sha256="b1e6a67f8f694a6f36035624bf73e2b1a0a4be13edaf3ba5e654d9758b61073a")

    depends_on("py-setuptools@64:", type="build")
    depends_on("py-rich@12:", type=("build", "run"))
    depends_on("py-pygments@2:", type=("build", "run"))
