"""The methods of `hpcml train`, one package each. `registry` lists them.

    report = registry.train("dual", session, Path("docs.h5"), Target(Path("runs/docs")),
    DualOptions(label=("sea",)))

A method has `options` (a frozen dataclass that defines flags, TOML keys and help), `train`, and usually an `estimator` for
scikit-learn. Methods with a weight vector per label train through `linear`; `online` and `psbml` have their own runs. Methods do
not import each other. Start with `registry` and `linear`.
"""
