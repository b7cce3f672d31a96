"""Healthy programs that are full of infinities: masks, log-probabilities of nothing, running minima. No finding may come."""

from __future__ import annotations

from tests.forensics.faults import HEAD, net

CAUSAL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.register_buffer("mask", torch.full((6, 6), -torch.inf).triu(1))
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
    def forward(self, x):
        z = x[:, :, None] * torch.ones(4)
        return {body}
"""
_USUAL = net("return h")
_LOOP = _USUAL[_USUAL.index("net = Net()") :]


def _attention(body: str) -> str:
    return HEAD + CAUSAL.format(body=body) + _LOOP


def _model(forward: str) -> str:
    return net(forward)


def _loss(loss: str, x: str = "torch.randn(8, 6)", y: str = "torch.randn(8, 4)") -> str:
    return net("return h", loss, x=x, y=y)


PADDED = "torch.randn(8, 4).masked_fill(torch.eye(8, 4) > 0, torch.nan)"
ABSENT = "torch.full((8, 1), -torch.inf)"
FILLED = "h.masked_fill(torch.arange(4) > 2, -torch.inf)"
ENCODER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    def forward(self, x):
        pad = torch.zeros(8, 6, dtype=torch.bool)
        pad[2] = True
        return self.enc(x[:, :, None] * torch.ones(4), src_key_padding_mask=pad).mean(1)
"""
BEAM = """
beam = torch.full((8, 4), -torch.inf).scatter(1, y.argmax(1, keepdim=True), 0.0)
loss = F.mse_loss(out, y) - 0.01 * (out.log_softmax(1) + beam).logsumexp(1).mean()
"""
BLANK = """
z = out.log_softmax(1)[:, None].expand(8, 1, 4)
target = torch.ones(1, 5, dtype=torch.long)
loss = F.mse_loss(out, y) + F.ctc_loss(z, target, (8,), (3,), zero_infinity=True)
"""
BEST = """
best = torch.tensor(torch.inf)
loss = F.mse_loss(out, y)
best = torch.minimum(best, loss.detach())
"""
WEIGHTS = """
w = torch.log(torch.tensor([0.0, 1.0, 2.0, 3.0])).exp()
loss = ((out - y).square() * w).mean()
"""
HEALTHY = {
    "causal mask by hand": _attention("self.body(((z @ z.mT + self.mask).softmax(-1) @ z)[:, :, 0])"),
    "causal mask in the module": _attention("self.att(z, z, z, attn_mask=self.mask)[0].mean(1)"),
    "fused causal attention": _attention("self.body(F.scaled_dot_product_attention(z, z, z, is_causal=True)[:, :, 0])"),
    "padding mask": _attention("self.att(z, z, z, key_padding_mask=torch.arange(6) > 3 + x[:, :1] * 0)[0].mean(1)"),
    "masked fill before softmax": _model(f"return {FILLED}.softmax(-1)"),
    "masked logits": _loss("loss = F.cross_entropy(out.masked_fill(torch.arange(4) > 2, -torch.inf), y[:, :3].argmax(1))"),
    "logsumexp with absent terms": _model(f"return h + torch.cat([h, {ABSENT}], 1).logsumexp(1, keepdim=True)"),
    "safe where": _model("g = torch.where(h > 0, h, torch.ones_like(h))\nreturn torch.where(h > 0, torch.log(g), h)"),
    "log of zero counts": _loss(WEIGHTS),
    "max over padding": _model(f"return h + {FILLED}.amax(1, keepdim=True)"),
    "top k of padded scores": _model(f"return h + {FILLED}.topk(2).values.sum(1, keepdim=True)"),
    "best so far": _loss(BEST),
    "missing targets left out": _loss("keep = ~torch.isnan(y)\nloss = F.mse_loss(out[keep], y[keep])", y=PADDED),
    "mean of what is there": _loss("t = y.nanmean(0)\nloss = F.mse_loss(out.mean(0), t)", y=PADDED),
    "cross entropy at certainty": _loss("loss = F.binary_cross_entropy(torch.sigmoid(out * 1e3), (y > 0).float())"),
    "x log x at zero": _loss("p = F.one_hot(y.argmax(1), 4).float()\nloss = F.mse_loss(out, y) + torch.xlogy(p, p).sum()"),
    "blank paths": _loss(BLANK),
    "scores of a beam": _loss(BEAM),
    "norm at zero": _model("return h + (h - h).norm(dim=1, keepdim=True)"),
    "normalised with eps": _model("return F.normalize(h * (x[:, :1] > 0), dim=1)"),
    "encoder over padding only": HEAD + ENCODER + _LOOP,
}
