"""hpcml: very many linear and boosted classifiers on very large sparse data, with MPI; the same bits on any number of ranks."""

__version__ = "0.1.0"
