"""The kernel that benchmarks/tracing.py times: one head of FlashAttention, for tiles that divide N."""

import torch
import triton
import triton.language as tl


@triton.jit
def flash_attention(q_ptr, k_ptr, v_ptr, o_ptr, seq_len, sm_scale, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(q_ptr + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
    m_i = tl.full((BLOCK,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, HEAD_DIM), tl.float32)
    for start_n in range(0, seq_len, BLOCK):
        offs_n = start_n + tl.arange(0, BLOCK)
        inside = offs_n < seq_len
        k = tl.load(k_ptr + offs_n[:, None] * HEAD_DIM + offs_d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, k.T) * sm_scale
        s = tl.where(inside[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + offs_n[:, None] * HEAD_DIM + offs_d[None, :], mask=inside[:, None], other=0.0)
        acc = acc + tl.dot(p, v)
        m_i = m_new
    tl.store(o_ptr + offs_m[:, None] * HEAD_DIM + offs_d[None, :], acc / l_i[:, None])


def inputs(seq_len, head_dim):
    """q, k, v and an empty o, each (seq_len, head_dim) fp32."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(seq_len, head_dim, generator=generator) for _ in range(3))
    return q, k, v, torch.empty_like(q)


def run(kernel, tensors, tile):
    """Launches `kernel`: the one of this file, or a tracer's form of it."""
    seq_len, head_dim = tensors[0].shape
    kernel[(seq_len // tile,)](*tensors, seq_len, head_dim**-0.5, BLOCK=tile, HEAD_DIM=head_dim)


def check(tensors):
    """Raises AssertionError if o is not the attention of q, k and v: a wrong run is not timed."""
    q, k, v, o = tensors
    expected = torch.softmax(q.double() @ k.double().T / q.shape[1] ** 0.5, -1) @ v.double()
    torch.testing.assert_close(o.double(), expected, rtol=1e-4, atol=1e-4)
