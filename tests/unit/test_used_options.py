"""An option that has no effect on what is trained is refused; a configuration that holds all options is none."""

from dataclasses import fields, replace

import make
import numpy as np
import pytest
from support.training import train

from hpcml import mpi
from hpcml.bench.compare import choose_methods
from hpcml.bench.ovr import OvrOptions, bench_ovr
from hpcml.cli import app as cli
from hpcml.conversion.convert import check_options
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError
from hpcml.methods import registry as convex
from hpcml.methods.online import learners as online
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.options import check_used, flag_of

# An allowed value that is not the default, of every option that some method does not use.
OTHER = {
    **{"epsilon": 0.1, "dormant": False, "seed": 7, "dual_tol": 0.5, "max_gap": 0.5, "gap": True},
    **{"positive_weight": "balanced", "svmperf_epsilon": 0.5, "liblinear_tol": 0.5},
    **{"alpha": 2.0, "beta": 0.25, "theta": 0.5, "margin": 2.0, "gamma": 0.5, "live_features": 9, "share": 0.5},
}
PAIRS = [(TrainOptions, convex.USES), (OnlineOptions, online.USES)]
CASES = [(kind, uses, method, name) for kind, uses in PAIRS for method in uses for name in sorted(set().union(*uses.values()))]


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(0, 60, 8, 2, 0.4)
    return make.dataset(tmp_path / "data.h5", abs(X), Y)


@pytest.mark.parametrize(("kind", "uses", "method", "name"), CASES)
def test_every_option_of_another_method_is_refused(kind, uses, method, name):
    options = replace(kind(), **{name: OTHER[name]})
    check_used(kind(), [method], uses)
    if name in uses[method]:
        check_used(options, [method], uses)
        return
    users = ", ".join(other for other, names in uses.items() if name in names)
    with pytest.raises(ConfigError, match=rf"{flag_of(name)}( \S+)? has no effect on {method}, it is for {users}; leave it out$"):
        check_used(options, [method], uses)
    check_used(options, [method, users.split(", ")[0]], uses)


def test_table_names_options_that_there_are():
    for kind, uses in PAIRS:
        assert set().union(*uses.values()) <= {option.name for option in fields(kind)}


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("probe", {"dual_tol": 0.5}, "--dual-tol 0.5 has no effect on probe"),
        ("dual", {"epsilon": 0.1}, "--epsilon 0.1 has no effect on dual"),
        ("dual", {"dormant": False}, "--no-dormant has no effect on dual"),
        ("pegasos", {"loss": "hinge", "gap": True}, "--gap has no effect on pegasos"),
        ("perceptron", OnlineOptions(alpha=2.0), "--alpha 2.0 has no effect on perceptron"),
        ("bw", OnlineOptions(margin=2.0), "--margin 2.0 has no effect on bw, it is for mbw"),
        ("mbw", OnlineOptions(share=0.5), "--share 0.5 has no effect without --live-features"),
        ("mbw", OnlineOptions(seed=3), "--seed 3 has no effect without --shuffle"),
        ("mbw", OnlineOptions(zero_based=True), "--zero-based has no effect on a dataset"),
    ],
)
def test_training_refuses_before_it_touches_anything(data, tmp_path, method, options, words):
    work = train if method in convex.METHODS else train_online
    with pytest.raises(ConfigError, match=words):
        work(method, None, data, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def run(*tokens):
    """A command line, on one rank."""
    cli.run([str(token) for token in tokens], mpi.self_comm)


def test_flags_and_configurations_are_refused_alike(data, tmp_path):
    (tmp_path / "a.toml").write_text("dual-tol = 0.5\n")
    for given in (("--dual-tol", "0.5"), ("--config", tmp_path / "a.toml")):
        with pytest.raises(ConfigError, match=r"^--dual-tol 0.5 has no effect on probe, it is for dual; leave it out$"):
            run("train", "probe", data, "-o", tmp_path / "run", *given)
    (tmp_path / "b.toml").write_text("alpha = 2.0\n")
    for given in (("--alpha", "2"), ("--config", tmp_path / "b.toml")):
        with pytest.raises(ConfigError, match=r"^--alpha 2.0 has no effect on pa, it is for pw, bw, mbw; leave it out$"):
            run("train", "pa", data, "-o", tmp_path / "run", *given)


def test_configuration_of_a_run_serves_another_method(data, tmp_path):
    run("train", "probe", data, "-o", tmp_path / "probe", "--lambda", "0.1")
    text = (tmp_path / "probe" / "config.toml").read_text()
    assert "dual-tol" in text
    (tmp_path / "other.toml").write_text("".join(line for line in text.splitlines(True) if not line.startswith(("data", "output"))))
    run("train", "pegasos", data, "-o", tmp_path / "pegasos", "--config", tmp_path / "other.toml", "--max-steps", "3")
    assert (tmp_path / "pegasos" / "model.h5").exists()


def test_run_goes_on_with_the_options_it_was_begun_with(data, tmp_path):
    train("pa", None, data, tmp_path / "run", {})
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("alpha = 1.5", "alpha = 2.0"))  # as older versions let it be
    report = train("pa", None, data, tmp_path / "run", {"alpha": 2.0}, resume=True)
    assert report.n_rows == 60


def test_methods_that_share_options_need_one_that_uses_them(data, tmp_path):
    assert choose_methods(("probe", "dual"), {"loss": "hinge", "dual_tol": 0.5, "epsilon": 0.1}) == ["probe", "dual"]
    assert choose_methods(("probe", "dual"), {"loss": "hinge", "gap": True}) == ["probe", "dual"]
    with pytest.raises(ConfigError, match=r"--svmperf-epsilon 0.5 has no effect on probe, dual"):
        choose_methods(("probe", "dual"), {"loss": "hinge", "svmperf_epsilon": 0.5})
    with pytest.raises(ConfigError, match="--positive-weight is for the method dual, not for probe"):
        choose_methods(("probe", "dual"), {"loss": "hinge", "positive_weight": "2"})
    with pytest.raises(ConfigError, match=r"--dual-tol 0.5 has no effect: the tolerances are those of --tol"):
        bench_ovr(None, data, tmp_path / "out", OvrOptions(peers=("none",)), {"dual_tol": 0.5})


def test_one_set_of_options_trains_several_methods(data, tmp_path):
    run("compare", data, "-o", tmp_path / "both", "--method", "probe", "--method", "dual", "--dual-tol", "0.5", "--epsilon", "0.1")
    assert {path.parent.name for path in (tmp_path / "both").glob("*/model.h5")} == {"probe", "dual"}


def test_what_needs_another_option():
    with pytest.raises(ConfigError, match=r"--slow-factor 3.0 has no effect without --slow-rank"):
        PsbmlOptions(slow_factor=3.0).validate()
    with pytest.raises(ConfigError, match="--seed 3 has no effect without --test-share or --label-noise"):
        check_options("docstrings", [], ConvertOptions(seed=3))
    PsbmlOptions(slow_factor=3.0, slow_rank=0).validate()
    AdaboostOptions(seed=3).validate()
    check_options("docstrings", [], ConvertOptions(seed=3, test_share=np.float64(0.5)))
