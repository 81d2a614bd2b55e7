"""Experiment: one run of a kernel, as a value. It is a cache key, a page's address and command-line arguments."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explain.puzzles.kernels import KERNELS as OF_PUZZLES
from kernels.catalog import KERNELS as CATALOG
from kernels.catalog import TAUGHT, Kernel
from kernels.inputs import PRESETS, Arrays, Preset, check_fit
from kernels.parameters import ParameterError, Value, whole_number
from kernels.recipes import preset_of
from kernels.traffic import Term, Traffic

__all__ = ["Experiment", "ParameterError"]

KERNELS: Mapping[str, Kernel] = {**CATALOG, **OF_PUZZLES}
"""Every kernel that an experiment may name."""
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Experiment:
    """A kernel, its parameters, an input preset and a seed. Always valid: `of` checks it and fills in defaults."""

    kernel: str
    parameters: tuple[tuple[str, Value], ...]
    inputs: str
    seed: int

    @classmethod
    def of(
        cls, kernel: str, parameters: Mapping[str, object] | None = None, inputs: str | None = None, seed: object = 0
    ) -> Experiment:
        """The experiment with these parameters, as values or text, and defaults for the rest.

        Raises ParameterError, which names the parameter, its value and what is allowed.
        """
        entry = KERNELS.get(kernel) if isinstance(kernel, str) else None
        if entry is None:
            raise ParameterError("kernel", kernel, f"must be one of {', '.join(TAUGHT)}")
        inputs = entry.inputs if inputs is None else inputs
        preset = preset_of(inputs)
        number = whole_number(seed)
        if number is None or not 0 <= number <= _LARGEST_SEED:
            raise ParameterError("seed", seed, f"must be a whole number from 0 to {_LARGEST_SEED}")
        given = dict(parameters or {})
        names = [parameter.name for parameter in entry.parameters]
        for name, value in given.items():
            if name not in names:
                raise ParameterError(name, value, f"{kernel} has no such parameter; it has {', '.join(names)}")
        values: dict[str, Value] = {}
        for parameter in entry.parameters:
            default = parameter.default(values) if callable(parameter.default) else parameter.default
            default = preset.defaults.get(parameter.name, default)
            values[parameter.name] = parameter.parse(given.get(parameter.name, default))
        entry.check(values)
        check_fit(preset, values)
        return cls(kernel, tuple(values.items()), preset.name, number)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)

    @property
    def entry(self) -> Kernel:
        """The kernel's catalog entry."""
        return KERNELS[self.kernel]

    @property
    def preset(self) -> Preset:
        """The input preset."""
        return preset_of(self.inputs)

    @property
    def traffic(self) -> Traffic:
        """What it must move and compute, by its kernel's formula."""
        return _traffic(self)

    @property
    def whole_terms(self) -> tuple[Term, ...]:
        """The formula's terms with each tensor's own elements. Under a causal mask they add up what each tile loads;
        the last query sees all keys.
        """
        return (self.with_(causal=False) if self.values.get("causal") else self).traffic.terms

    def make_inputs(self) -> Arrays:
        """The arrays that its kernel takes, float32 holding values of the experiment's dtype."""
        return self.entry.make_inputs(self.preset, self.values, self.seed)

    def through(self, kernel: str) -> Experiment:
        """The same inputs and parameters with another kernel. Raises ParameterError if it lacks a parameter."""
        return Experiment.of(kernel, self.values, self.inputs, self.seed)

    def with_(self, **changes: object) -> Experiment:
        """This experiment with some parameters, `inputs` or `seed` changed."""
        inputs = str(changes.pop("inputs", self.inputs))
        seed = changes.pop("seed", self.seed)
        return Experiment.of(self.kernel, {**self.values, **changes}, inputs, seed)

    # JSON

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` reads it."""
        return {"kernel": self.kernel, "parameters": self.values, "inputs": self.inputs, "seed": self.seed}

    @classmethod
    def from_json(cls, data: object) -> Experiment:
        """The experiment in a JSON object. Raises ParameterError, also for any other JSON."""
        if not isinstance(data, Mapping) or not isinstance(data.get("parameters", {}), Mapping) or "kernel" not in data:
            raise ParameterError("experiment", data, "must be an object with kernel, parameters, inputs and seed")
        if unknown := set(data) - {"kernel", "parameters", "inputs", "seed"}:
            raise ParameterError("experiment", ", ".join(sorted(unknown)), "has only kernel, parameters, inputs, seed")
        return cls.of(data["kernel"], data.get("parameters"), data.get("inputs"), data.get("seed", 0))

    @functools.cached_property
    def key(self) -> str:
        """Canonical JSON: equal experiments have equal keys."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    # URL

    def to_query(self) -> dict[str, str]:
        """URL query parameters; `from_query` reads them."""
        parameters = {name: text_of(value) for name, value in self.parameters}
        return {"kernel": self.kernel, **parameters, "inputs": self.inputs, "seed": str(self.seed)}

    @classmethod
    def from_query(cls, query: Mapping[str, str], default: Experiment | None = None) -> Experiment:
        """The experiment in URL query parameters. Names that are not a kernel's parameters belong to the page and are
        ignored.

        Missing parameters come from `default` if it has the same kernel, else from the catalog.
        """
        kernel = query.get("kernel", default.kernel if default else "")
        known = {parameter.name for entry in TAUGHT.values() for parameter in entry.parameters}
        given: dict[str, object] = {name: value for name, value in query.items() if name in known}
        if default is None or default.kernel != kernel:
            return cls.of(kernel, given, query.get("inputs"), query.get("seed", 0))
        base = default.values if query.get("inputs", default.inputs) == default.inputs else {}
        return cls.of(kernel, {**base, **given}, query.get("inputs", default.inputs), query.get("seed", default.seed))

    # Command line

    def to_arguments(self) -> list[str]:
        """Command-line arguments; `from_parsed` reads them."""
        settings = [word for name, value in self.parameters for word in ("--set", f"{name}={text_of(value)}")]
        return [self.kernel, *settings, "--inputs", self.inputs, "--seed", str(self.seed)]

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Adds --set, --inputs and --seed."""
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter; repeat for more"
        )
        parser.add_argument("--inputs", metavar="PRESET", help=f"one of {', '.join(PRESETS)}; or made:…")
        parser.add_argument("--seed", default="0", metavar="N", help="seed of the random numbers, 0 by default")

    @classmethod
    def from_parsed(cls, kernel: str, parsed: argparse.Namespace) -> Experiment:
        """The experiment of a kernel and the arguments that `add_arguments` defines. Raises ParameterError."""
        given: dict[str, object] = {}
        for setting in parsed.set:
            name, equals, value = setting.partition("=")
            if not equals or not name:
                raise ParameterError("--set", setting, "must be written NAME=VALUE")
            if name in given:
                raise ParameterError(name, value, f"was already set to {given[name]}")
            given[name] = value
        return cls.of(kernel, given, parsed.inputs, parsed.seed)


def text_of(value: Value) -> str:
    """A parameter's value in an address or on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@functools.lru_cache(maxsize=4096)
def _traffic(experiment: Experiment) -> Traffic:
    return experiment.entry.formula(experiment.values)
