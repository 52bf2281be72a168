"""The methods of `hpcml train`: a room for each, and `registry`, which alone names them.

    report = registry.train("dual", session, Path("docs.h5"), Target(Path("runs/docs")),
    DualOptions(label=("sea",)))

A room has `options` (a frozen dataclass, from which flags, TOML keys and help are made), `train`, and mostly an `estimator` for
scikit-learn. Methods with a weight vector for each label train through `linear`; `online` and `psbml` have runs of their own. No
method imports another. Begin with `registry` and `linear`.
"""
