"""Spack package of cyclopts, which hpcml's command line uses and Spack lacks."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCyclopts(PythonPackage):
    """Command lines from type hints."""

    pypi = "cyclopts/cyclopts-5.5.2.tar.gz"

    license("Apache-2.0")

    version("5.5.2", sha256="c0339b7ddd7b1c886f13bb8b68a6a65aa7144d3027f1d0e290be514b8fe1589b")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling", type="build")
    depends_on("py-hatch-vcs", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-attrs@23.1:")
        depends_on("py-docstring-parser@0.15:3")
        depends_on("py-rich@13.6:")
        depends_on("py-rich-rst@2.0.1:2")
