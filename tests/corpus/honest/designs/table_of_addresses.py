# what: one launch for products of several sizes, whose addresses lie in a tensor
# task: grouped_products

import torch
import triton
import triton.language as tl


@triton.jit
def _grouped(
    APTR,
    BPTR,
    CPTR,
    SIZES,
    G,
    NP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    seen = 0
    for g in range(G):
        M = tl.load(SIZES + 3 * g)
        N = tl.load(SIZES + 3 * g + 1)
        K = tl.load(SIZES + 3 * g + 2)
        nn = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * nn
        while (tile >= seen) & (tile < seen + tiles):
            A = tl.load(APTR + g).to(tl.pointer_type(tl.float32))
            B = tl.load(BPTR + g).to(tl.pointer_type(tl.float32))
            C = tl.load(CPTR + g).to(tl.pointer_type(tl.float32))
            m = ((tile - seen) // nn) * BM + tl.arange(0, BM)
            n = ((tile - seen) % nn) * BN + tl.arange(0, BN)
            acc = tl.zeros([BM, BN], tl.float32)
            for k0 in range(0, K, BK):
                k = k0 + tl.arange(0, BK)
                a = tl.load(
                    A + m[:, None] * K + k[None, :],
                    mask=(m < M)[:, None] & (k < K)[None, :],
                    other=0.0,
                )
                b = tl.load(
                    B + k[:, None] * N + n[None, :],
                    mask=(k < K)[:, None] & (n < N)[None, :],
                    other=0.0,
                )
                acc = tl.dot(a, b, acc, input_precision="ieee")
            tl.store(C + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
            tile += NP
        seen += tiles


def fused_operator(a0, a1, a2, b0, b1, b2):
    A = [t.contiguous() for t in (a0, a1, a2)]
    B = [t.contiguous() for t in (b0, b1, b2)]
    C = [a.new_empty(a.shape[0], b.shape[1]) for a, b in zip(A, B)]
    dev = a0.device
    ptr = [
        torch.tensor([t.data_ptr() for t in ts], dtype=torch.int64, device=dev) for ts in (A, B, C)
    ]
    sizes = torch.tensor(
        [[a.shape[0], b.shape[1], a.shape[1]] for a, b in zip(A, B)], dtype=torch.int32, device=dev
    )
    for a, b in zip(A, B):
        if a.shape[1] != b.shape[0]:
            raise ValueError
    _grouped[(3,)](*ptr, sizes, 3, NP=3, BM=16, BN=16, BK=16)
    return C
