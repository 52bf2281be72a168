"""Names of version 0.11 and older, and what each is called now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpcml.errors import ConfigError

OPTIONS = {"block": "labels-per-pass", "shards": "ranks-per-group", "gap": "show-gaps"}  # flags, and keys of config.toml
METHODS = {"naive-bayes": "bernoulli-nb"}
LOSSES = {"maxent": "logistic"}
BASES = {"naive-bayes": "kernel-nb", "naive-bayes-gaussian": "gaussian-nb"}  # of psbml and adaboost
COMPARED = BASES | METHODS | {"all-naive-bayes": "all-bernoulli-nb", "nb": "multinomial-nb"}  # by `hpcml cv`
VALUES = {"method": METHODS, "loss": LOSSES}  # of attributes of models and of keys of config.toml


def with_names_of_now(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a config.toml, or the attributes of a model, with their names of now."""
    found = {OPTIONS.get(key, key): name_of_now(value, VALUES.get(key, {})) for key, value in values.items()}
    if isinstance(base := found.get("base"), list):
        found["base"] = [*(name_of_now(name, BASES) for name in base[:1]), *base[1:]]
    return found


def name_of_now(name: Any, renamed: Mapping[str, str]) -> Any:
    """The name of now; anything else is as it is."""
    return renamed.get(name, name) if isinstance(name, str) else name


def refuse_earlier(name: str | None, renamed: Mapping[str, str], what: str = "") -> None:
    """Raise ConfigError with the new name, after `what`, if `name` is one of earlier versions."""
    if name in renamed:
        raise ConfigError(f"{what}{name} is now {renamed[name]}")
