"""Spack package of hpcml, built from a clone of it or from its source distribution.

    spack repo add packaging/spack/spack_repo/hpcml
    spack dev-build --source-path . py-hpcml@0.13.0 ^mpich@4.1.3:    # or the cluster's own MPI, as an external package

Spack lacks four of what hpcml uses: cyclopts and rich-rst, which lie beside this file, and skops and daqp, of the extras
`sklearn` and `svmperf`: `pip install skops daqp` brings them.
"""

import os

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyHpcml(PythonPackage):
    """Very many linear and boosted classifiers on very large sparse data, with MPI."""

    manual_download = (
        True  # hpcml-VERSION.tar.gz, as `python -m build --sdist` writes it, is looked for in dist/ of the folder of the call
    )
    url = f"file://{os.getcwd()}/dist/hpcml-0.13.0.tar.gz"

    license("BSD-3-Clause")

    version("0.13.0")

    variant("report", default=False, description="pages about runs")
    variant("tables", default=False, description="Parquet files")
    variant("pubmed", default=False, description="PubMed's XML files")
    variant("serve", default=False, description="answers over HTTP")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-mpi4py@4.1:")
        depends_on("py-numpy@1.26:")
        depends_on("py-scipy@1.12:")
        depends_on("py-numba@0.62:0.68")
        depends_on("py-h5py@3.10:~mpi")  # each rank opens files by itself
        depends_on("py-scikit-learn@1.6:")
        depends_on("py-threadpoolctl@3.1:")
        depends_on("py-cyclopts@4.0:")
        depends_on("py-rich@13.6:")

        depends_on("py-matplotlib@3.8:", when="+report")
        depends_on("py-jinja2@3.1:", when="+report")
        depends_on("py-itables@2.2:", when="+report")
        depends_on("py-pyarrow@16:", when="+tables")
        depends_on("py-lxml@5:", when="+pubmed")
        depends_on("py-uvicorn@0.30:", when="+serve")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def says_its_version(self):
        """The installed command starts."""
        python("-m", "hpcml", "--version")
