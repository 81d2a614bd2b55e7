"""The ladder: attention forward, one kernel per module, each with one new idea. Imports neither torch nor triton.

Every rung is one kernel and one wrapper, `attention(q, k, v, *, causal=False, sm_scale=None) -> (o, lse)`. Shapes and
meaning are those of `kernels.attention`; O and lse are contiguous. The difference from the rung below shows the new
idea. `kernels/attention_hopper.py` is the top of the ladder. A hidden V must be finite on every rung: 0 · NaN is NaN.
"""

ORDER = ("naive_fp32", "bf16", "exp2", "causal", "pipelined", "tma", "specialised", "two_groups", "overlapped")
"""The rungs' modules, from first to last."""
GLUON = ("specialised", "two_groups", "overlapped")
"""Written in Gluon: they run on a Hopper GPU only, not in the interpreter."""
