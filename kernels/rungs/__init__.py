"""The ladder: attention forward, a rung a module, each with one new idea over the one below. Imports neither torch nor triton.

Every rung is one kernel and one wrapper, `attention(q, k, v, *, causal=False, sm_scale=None) -> (o, lse)`, of the shapes and meaning of
`kernels.attention`, O and lse contiguous. A difference from the rung below shows the one idea. The top rung is `kernels/attention_hopper.py`.
A hidden V must be finite on every rung: 0 · NaN is NaN.
"""

ORDER = (
    "naive_fp32",
    "bf16",
    "exp2",
    "causal",
    "pipelined",
    "tma",
    "specialised",
    "two_groups",
    "overlapped",
)
"""The rungs' modules, from the bottom up."""
GLUON = ("specialised", "two_groups", "overlapped")
"""Those that only a Hopper GPU runs, and no interpreter."""
