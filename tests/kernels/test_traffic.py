"""Formula and trace agree to the byte and to the FLOP, for every kernel, over its whole range of parameters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explain.experiment import Experiment
from explain.run_experiment import run_traced
from kernels import traffic
from kernels.catalog import TAUGHT, Kernel
from kernels.inputs import PRESETS
from kernels.parameters import ALIGNMENTS, ORDERS, WHOLE_ROW_TILE

DTYPES = st.sampled_from(["fp32", "fp16", "bf16"])
SYNTHETIC = sorted(preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook")


def side(largest: int) -> st.SearchStrategy[int]:
    return st.sampled_from([1 << bit for bit in range(largest.bit_length())])


@st.composite
def experiments(draw: st.DrawFn, kernel: Kernel) -> Experiment:
    parameters: dict[str, object] = {"dtype": draw(DTYPES)}
    names = {parameter.name for parameter in kernel.parameters}
    if kernel.family == "vector":
        parameters |= {"n": draw(st.integers(1, 70)), "block_n": draw(side(64))}
    elif kernel.family == "softmax":
        parameters |= {"rows": draw(st.integers(1, 4)), "cols": draw(st.integers(1, 40))}
        if WHOLE_ROW_TILE not in kernel.parameters:
            parameters["block_n"] = draw(side(64)) if "k" not in names else draw(st.sampled_from([4, 16, 64]))
        if "k" in names:
            parameters["k"] = draw(st.sampled_from([1, 3, 32]))
        if "order" in names:
            parameters["order"] = draw(st.sampled_from(ORDERS))
        if "block_m" in names:
            parameters["block_m"] = draw(side(8))
    elif kernel.family == "loss":
        tokens = draw(st.integers(1, 24))
        parameters |= {
            "tokens": tokens,
            "vocab": draw(st.integers(1, 40)),
            "dim": draw(st.integers(1, 40)),
            "ignored": draw(st.integers(0, tokens)),
            "block_m": draw(st.sampled_from([4, 16, 32])),
            "block_n": draw(st.sampled_from([8, 16, 64])),
        }
        if kernel.name != "cross_entropy_backward":  # its tiles span all dimensions
            parameters["block_d"] = draw(st.sampled_from([16, 64]))
    else:
        kv_heads = draw(st.integers(1, 2))
        parameters |= {
            "batch": draw(st.integers(1, 2)),
            "kv_heads": kv_heads,
            "heads": kv_heads * draw(st.integers(1, 2)),
            "seq_len": draw(st.integers(1, 24)),
            "kv_len": draw(st.integers(1, 24)),
            "head_dim": draw(st.integers(16, 40)),
            "causal": draw(st.booleans()),
            "block_m": draw(side(32)),
            "block_n": draw(side(32)),
        }
        if "splits" in names:
            parameters |= {"splits": draw(st.integers(1, 6)), "align": draw(st.sampled_from(ALIGNMENTS))}
        for block, length in (("block_m", "seq_len"), ("block_n", "kv_len")):  # at most 8 tiles: more take long here
            least = int(str(parameters[length])) // 8 or 1
            parameters[block] = 1 << (max(int(str(parameters[block])), least) - 1).bit_length()
    return Experiment.of(kernel.name, parameters, draw(st.sampled_from(SYNTHETIC)))


@pytest.mark.parametrize("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
def test_formula_is_trace(kernel):
    @given(experiments(kernel))
    @settings(max_examples=10)
    def agree(experiment: Experiment) -> None:
        trace, _ = run_traced(experiment, "first", lambda *_: None)
        assert trace.traffic() == kernel.formula(experiment.values).totals()

    agree()


@pytest.mark.parametrize("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
def test_each_term_is_what_the_trace_counts_for_its_buffer(kernel):
    sizes: dict[str, dict[str, object]] = {
        "vector": {"n": 21},
        "softmax": {"rows": 3, "cols": 21},
        "loss": {"tokens": 21, "vocab": 30, "dim": 40, "ignored": 3},
        "attention": {"heads": 4, "kv_heads": 2, "seq_len": 21, "kv_len": 30, "causal": True},
    }
    experiment = Experiment.of(kernel.name, sizes[kernel.family], "normal")
    trace, _ = run_traced(experiment, "first", lambda *_: None)
    by_formula: dict[tuple[str, bool], int] = {}
    for term in kernel.formula(experiment.values).terms:
        by_formula[term.buffer, term.written] = by_formula.get((term.buffer, term.written), 0) + term.bytes
    traced: dict[tuple[str, bool], int] = {}
    for number, launch in enumerate(trace.launches):
        for written, counts in ((False, launch.read_bytes), (True, launch.written_bytes)):
            for buffer, size in counts.items():
                # softmax_row, launched by attention_standard on S, calls its input x and its output y.
                calls = {"x": "s", "y": "p"} if (kernel.name, number) == ("attention_standard", 1) else {}
                name = calls.get(buffer.removesuffix("_ptr"), buffer.removesuffix("_ptr"))
                if size:
                    traced[name, written] = traced.get((name, written), 0) + size
    assert traced == {key: size for key, size in by_formula.items() if size}


def test_what_passes_between_two_visits_is_the_state_of_the_heads_in_progress():
    p = Experiment.of("flash_attention_v1", {"heads": 4, "kv_heads": 4, "seq_len": 32, "kv_len": 64}).values
    terms = traffic.flash_attention_v1(p)
    q = next(term for term in terms.terms if term.buffer == "q")
    state = 4 * 32 * (p["head_dim"] * (4 + 4) + 2 * 4)  # q and o_hbm, m_hbm and l_hbm, all float32
    between = [traffic.between_visits(p, terms, q, programs) for programs in (1, 4, 100)]
    assert between == [state // 4 * p["batch"], state * p["batch"], state * p["batch"]]


@pytest.mark.parametrize(
    ("name", "accesses"),
    [("softmax_naive", 3), ("softmax_safe", 4), ("softmax_online", 3), ("softmax_tiled", 3), ("softmax_row", 2)],
)
def test_accesses_per_element_are_the_papers(name, accesses):
    """Milakov & Gimelshein: naive 3, safe 4, online 3 memory accesses per element; counted on our kernels."""
    experiment = Experiment.of(name, {"rows": 2, "cols": 50}, "normal")
    trace, _ = run_traced(experiment, "first", lambda *_: None)
    total = trace.traffic()["read_bytes"] + trace.traffic()["written_bytes"]
    assert total == accesses * 2 * 50 * 4


@pytest.mark.parametrize(
    ("name", "accesses"),
    [("softmax_safe_then_topk", 5), ("softmax_online_then_topk", 4), ("softmax_safe_topk", 2), ("softmax_topk", 1)],
)
def test_accesses_per_element_with_topk_are_the_papers(name, accesses):
    """Milakov & Gimelshein, section 4, not counting the stored list of K weights and columns."""
    rows, cols, k = 2, 50, 3
    experiment = Experiment.of(name, {"rows": rows, "cols": cols, "k": k}, "normal")
    trace, _ = run_traced(experiment, "first", lambda *_: None)
    total = trace.traffic()["read_bytes"] + trace.traffic()["written_bytes"]
    assert total - rows * k * (4 + 8) == accesses * rows * cols * 4
