"""Experiments: every round trip, and an error that names the parameter, its value and what is allowed."""

from __future__ import annotations

import argparse
import json
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain.experiment import Experiment, ParameterError
from explain.verification import grid
from kernels.catalog import TAUGHT


def parsed(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("kernel")
    Experiment.add_arguments(parser)
    found = parser.parse_args(arguments)
    return Experiment.from_parsed(found.kernel, found)


EVERY = [experiment for kernel in TAUGHT.values() for experiment in grid(kernel, every=17)]


@pytest.mark.parametrize("experiment", EVERY[::7], ids=lambda experiment: experiment.key)
def test_round_trips(experiment):
    assert Experiment.from_json(json.loads(json.dumps(experiment.to_json()))) == experiment
    assert Experiment.from_json(json.loads(experiment.key)) == experiment
    assert Experiment.from_query(dict(parse_qsl(urlencode(experiment.to_query())))) == experiment
    assert parsed(experiment.to_arguments()) == experiment
    assert hash(parsed(experiment.to_arguments())) == hash(experiment)


@pytest.mark.parametrize(
    ("kernel", "parameters", "inputs", "seed", "parameter", "words"),
    [
        ("no_such", {}, None, 0, "kernel", "flash_attention"),
        ("softmax_online", {"colour": 3}, None, 0, "colour", "rows, cols, dtype, block_n"),
        ("softmax_online", {"cols": "many"}, None, 0, "cols", "whole number from 1"),
        ("softmax_online", {"cols": "1e3"}, None, 0, "cols", "whole number"),
        ("softmax_online", {"cols": "²"}, None, 0, "cols", "whole number"),
        ("softmax_online", {"cols": True}, None, 0, "cols", "whole number"),
        ("softmax_online", {"cols": 0}, None, 0, "cols", "from 1"),
        ("softmax_online", {"rows": -1}, None, 0, "rows", "from 1"),
        ("softmax_online", {"block_n": 24}, None, 0, "block_n", "power of two"),
        ("softmax_online", {"block_n": 2**17}, None, 0, "block_n", "to 65,536"),
        ("softmax_row", {"cols": 100, "block_n": 64}, None, 0, "block_n", "at least 100"),
        ("softmax_tiled", {"block_m": 1024, "block_n": 1024}, None, 0, "block_m", "at most 64"),
        ("softmax_online", {"dtype": "fp64"}, None, 0, "dtype", "fp32, fp16, bf16"),
        ("flash_attention", {"seq_len": 0}, None, 0, "seq_len", "from 1"),
        ("flash_attention", {"head_dim": 8}, None, 0, "head_dim", "16 to 256"),
        ("flash_attention", {"head_dim": 257}, None, 0, "head_dim", "16 to 256"),
        ("flash_attention", {"block_m": 512}, None, 0, "block_m", "to 256"),
        ("flash_attention", {"heads": 4, "kv_heads": 3}, None, 0, "kv_heads", "divide heads=4"),
        ("flash_attention", {"causal": "perhaps"}, None, 0, "causal", "true or false"),
        ("attention_standard", {"kv_len": 2**20}, None, 0, "kv_len", "at most 65536"),
        ("flash_attention", {}, "sunshine", 0, "inputs", "normal, ascending"),
        ("flash_attention", {}, None, "x", "seed", "whole number"),
        ("flash_attention", {}, None, 1.5, "seed", "whole number"),
        ("flash_attention", {}, None, -1, "seed", "from 0"),
    ],
)
def test_what_cannot_be_used_is_named(kernel, parameters, inputs, seed, parameter, words):
    with pytest.raises(ParameterError) as caught:
        Experiment.of(kernel, parameters, inputs, seed)
    assert caught.value.parameter == parameter
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{parameter}=")


@pytest.mark.parametrize("value", ["block_n", "=4", "", "block_n:4"])
def test_a_setting_must_be_name_and_value(value):
    with pytest.raises(ParameterError, match="NAME=VALUE"):
        parsed(["softmax_online", "--set", value])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(ParameterError, match="already set to 4"):
        parsed(["softmax_online", "--set", "block_n=4", "--set", "block_n=8"])


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "softmax_online",
        {"kernel": "softmax_online", "parameters": 3},
        {"inputs": "normal"},
        {"kernel": "softmax_online", "extra": 1},
    ],
)
def test_json_that_is_no_experiment_is_refused(data):
    with pytest.raises(ParameterError):
        Experiment.from_json(data)


def test_defaults_follow_from_what_is_given():
    values = Experiment.of("flash_attention", {"heads": 6, "seq_len": 40}).values
    assert (values["kv_heads"], values["kv_len"]) == (6, 40)
    assert Experiment.of("softmax_row", {"cols": 100}).values["block_n"] == 128
    assert Experiment.of("softmax_online", {}, "notebook").values["cols"] == 6
    assert Experiment.of("softmax_naive").inputs == "large_magnitude"


def test_an_address_leaves_out_what_the_page_has():
    page = Experiment.of("flash_attention", {"block_m": 16}, "sentence")
    assert Experiment.from_query({}, page) == page
    assert Experiment.from_query({"causal": "true", "step": "12", "utm_source": "x"}, page) == page.with_(causal=True)


@given(
    st.dictionaries(
        st.sampled_from(["cols", "rows", "block_n", "dtype", "seed", "inputs", "kernel", "junk"]), st.text(max_size=12)
    )
)
def test_any_address_is_an_experiment_or_an_error_that_names_a_parameter(query):
    try:
        experiment = Experiment.from_query(query, Experiment.of("softmax_online"))
    except ParameterError as error:
        named = error.parameter
    else:
        assert Experiment.from_query(experiment.to_query()) == experiment
        return
    assert named in {"kernel", "inputs", "seed", *query}


def test_a_preset_bounds_the_sizes():
    for parameters, parameter in (
        ({"seq_len": 65}, "seq_len"),
        ({"heads": 13}, "heads"),
        ({"head_dim": 64}, "head_dim"),
        ({"batch": 2}, "batch"),
        ({"kv_len": 65}, "kv_len"),
    ):
        with pytest.raises(ParameterError) as caught:
            Experiment.of("flash_attention", parameters, "sentence")
        assert caught.value.parameter == parameter
