"""Measures against slow, obvious twins."""

from __future__ import annotations

import math

import pytest
import torch

from traindx import measures


@pytest.fixture
def tensors():
    g = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=g) for s in [(3,), (40, 50), (8, 4, 3, 3), (1,)]]


@pytest.fixture
def mixed(tensors):
    """Several of one shape, out of order, some large, some in other precisions."""
    more = [torch.randn_like(t) for t in tensors] + [torch.randn(200, 100), torch.randn(200, 100), torch.randn(3).double()]
    scalars = [torch.randn(()), torch.randn(())]
    return [*more, *tensors, torch.randn(3).to(torch.bfloat16), *scalars, torch.randn((), dtype=torch.float64)]


def test_norms_sums_and_extremes(mixed):
    norm, total, top = measures.moments(mixed)
    assert torch.allclose(norm, torch.tensor([t.float().norm() for t in mixed]).to(norm))
    assert torch.allclose(measures.norms(mixed), norm)
    assert torch.allclose(total, torch.tensor([t.float().sum() for t in mixed]).to(norm), atol=1e-4)
    assert torch.allclose(top, torch.tensor([t.abs().max() for t in mixed]).to(norm))


@pytest.mark.parametrize("entries", [2, 64, 5000])
def test_sketches_of_many_tensors_are_those_of_each(mixed, entries):
    rows, counts = measures.sketched(mixed, entries)
    for row, count, tensor in zip(rows, counts, mixed, strict=True):
        assert torch.equal(row[:count], measures.sketch(tensor, entries).to(row)) and row[count:].isnan().all()


@pytest.mark.parametrize("n", [10, measures.SAMPLE, measures.SAMPLE + 1, 3 * measures.SAMPLE])
@pytest.mark.parametrize("turned", [False, True])
def test_a_spread_sample_is_a_copy(n, turned):
    whole = torch.randn(2, n).T if turned else torch.randn(n, 2)
    kept = whole.clone()
    sample = measures.spread(whole)
    assert sample.numel() == min(2 * n, measures.SAMPLE) and torch.isin(sample, whole).all()
    sample.zero_()
    assert torch.equal(whole, kept)


def test_half_precision_does_not_overflow():
    big = torch.full((1000,), 6e4, dtype=torch.float16)
    assert measures.norms([big]).item() == pytest.approx(big.float().norm().item(), rel=1e-3)


@pytest.mark.parametrize("shape", [(512, 512), (100, 64), (7, 3), (5000,), (64, 3, 7, 7)])
def test_a_sketch_is_spread_over_rows_and_columns(shape):
    t = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
    s = measures.sketch(t, 256)
    assert s.shape[0] <= 256 and len(set(s.tolist())) == s.shape[0]
    if t.numel() > 256:
        assert s.shape[0] > 200 and len({int(v) % shape[-1] for v in s.tolist()}) >= min(shape[-1], 256) * 0.4


def test_quantiles_of_padded_rows(tensors):
    rows = [t.flatten()[:256] for t in tensors]
    counts = torch.tensor([len(r) for r in rows], dtype=torch.float32)
    got = measures.quantiles(measures.sketched(rows, 256)[0], [0.0, 0.05, 0.5, 0.95, 1.0], counts)
    for row, line in zip(rows, got):
        assert torch.allclose(line, row.quantile(torch.tensor([0.0, 0.05, 0.5, 0.95, 1.0])), atol=1e-5)


def test_kurtosis_of_a_gaussian_is_three():
    rows = torch.randn(4, 20000, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(measures.kurtosis(rows), torch.full((4,), 3.0), atol=0.2)


def test_spectral_norm_by_power_iteration():
    matrix = torch.randn(20, 30, generator=torch.Generator().manual_seed(2))
    start = torch.nn.functional.normalize(matrix.sum(0), dim=0)
    value, _ = measures.spectral_norm(matrix, start, rounds=60)
    assert value.item() == pytest.approx(torch.linalg.svdvals(matrix)[0].item(), rel=1e-3)


def test_effective_rank_counts_directions():
    g = torch.Generator().manual_seed(3)
    low = torch.randn(200, 3, generator=g) @ torch.randn(3, 16, generator=g)
    assert 1.5 < measures.effective_rank(low).item() <= 3.01
    assert measures.effective_rank(torch.randn(400, 16, generator=g)).item() > 14


def test_entropy_of_uniform_and_sharp_weights():
    uniform, sharp = torch.full((4,), 0.25), torch.tensor([1.0, 0, 0, 0])
    assert measures.entropy(uniform).item() == pytest.approx(1.0)
    assert measures.entropy(sharp).item() == 0.0


def test_peeking_reads_without_a_dispatch_or_says_none():
    assert measures.peek(torch.tensor(1.5, dtype=torch.float64)) == 1.5
    assert measures.peek(torch.tensor([7])) == 7.0
    assert measures.peek(torch.tensor(1.5, dtype=torch.bfloat16)) is None
    assert measures.peek(torch.tensor([1.0, 2.0])) is None
    assert measures.peek(torch.ones((), device="meta")) is None
    assert measures.peek_all(torch.tensor([1.0, math.inf])) == [1.0, math.inf]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0), torch.ones(2, dtype=torch.int64), torch.ones(2, device="meta"), torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64), torch.ones(2) > 0, "text", None,
    ],
    ids=["empty", "int", "meta", "sparse", "complex", "bool", "text", "none"],
)  # fmt: skip
def test_what_is_not_readable(tensor):
    assert not measures.readable(tensor)
