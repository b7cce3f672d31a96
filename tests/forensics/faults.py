"""Programs that go non-finite, each with the line that is to blame marked `# here`, and programs full of benign infinities."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
"""
LOOP = """
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = {x}, {y}
for step in range({steps}):
    {before}
    out = net(x)
{loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@dataclass(frozen=True)
class Fault:
    """One planted fault and what must be said about it."""

    name: str
    text: str
    ops: tuple[str, ...]
    phase: str = "forward"
    module: str = ""
    blame: str = "operation"
    sample: int | None = None

    @property
    def line(self) -> int:
        return next(i for i, text in enumerate(self.text.splitlines(), 1) if "# here" in text)


def net(
    forward: str,
    loss: str = "loss = F.mse_loss(out, y)",
    *,
    init: str = "",
    x: str = "torch.randn(8, 6)",
    y: str = "torch.randn(8, 4)",
    before: str = "",
    steps: str = "3",
    more: str = "",
) -> str:
    """A program around a small net: what `forward` does after `h = self.body(x)`, and how the loop makes its loss."""
    lines = [
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.body = nn.Linear(6, 4)",
        indent(dedent(init), " " * 8),
        "    def forward(self, x):",
        "        h = self.body(x)",
        indent(dedent(forward), " " * 8),
    ]
    loop = LOOP.format(x=x, y=y, before=before or "pass", loss=indent(dedent(loss), " " * 4), steps=steps)
    return HEAD + dedent(more) + "\n".join(lines) + loop


def model(
    name: str,
    forward: str,
    *ops: str,
    phase: str = "forward",
    module: str = "Net",
    blame: str = "operation",
    **options: str,
) -> Fault:
    """A fault inside the model's forward."""
    return Fault(name, net(forward, **options), ops, phase, module, blame)


def loop(name: str, loss: str, *ops: str, phase: str = "forward", blame: str = "operation", **options: str) -> Fault:
    """A fault in the loss the loop makes."""
    return Fault(name, net("return h", loss, **options), ops, phase, "", blame)


SOFTMAX = ("_softmax", "softmax", "_safe_softmax", "_scaled_dot_product_attention_math")
PRODUCTS = ("addmm", "mm", "linear", "matmul", "bmm", "mul", "add", "add_", "relu", "rnn_relu")
MASKED = "h.masked_fill(torch.arange(8)[:, None] == 2, -torch.inf)"

CUBE = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        return h ** 3
    @staticmethod
    def backward(ctx, grad):
        h, = ctx.saved_tensors
        return grad * h / (h - h)
"""
HEAD_MODULE = """
class Sigma(nn.Module):
    def forward(self, h):
        return torch.log(torch.relu(h))  # here
"""
VAE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 8), nn.Linear(4, 6)
        with torch.no_grad():
            self.enc.weight.mul_(1e3)
    def sample(self, mu, logvar):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)  # here
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        return self.dec(self.sample(mu, logvar))
"""
ATTENTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
    def forward(self, x):
        z = x[:, :, None] * torch.ones(4)
        pad = torch.zeros(8, 6, dtype=torch.bool)
        pad[2] = True
        return self.att(z, z, z, key_padding_mask=pad)[0].mean(1)  # here
"""
RNN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.RNN(1, 8, nonlinearity="relu", batch_first=True), nn.Linear(8, 4)
        with torch.no_grad():
            self.rnn.weight_hh_l0.abs_().mul_(1e9)
    def forward(self, x):
        h, _ = self.rnn(x[:, :, None])  # here
        return self.head(h[:, -1])
"""
CNN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 3, 3, bias=False), nn.Linear(3, 4)
    def forward(self, x):
        h = torch.relu(self.conv(x[:, None, :, None] * torch.ones(6)))
        h = h * torch.tensor([0.0, 1.0, 1.0])[:, None, None]
        h = h / h.amax((2, 3), keepdim=True)  # here
        return self.head(h.mean((2, 3)))
"""
GAN = """
G, D = nn.Linear(3, 6), nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
opt = torch.optim.SGD(G.parameters(), lr=0.1)
with torch.no_grad():
    D[0].bias.fill_(200.0)
for step in range(3):
    fake = G(torch.randn(8, 3))
    loss = torch.log(1 - D(fake)).mean()  # here
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MICRO = """
net = nn.Linear(6, 4); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    for micro in range(2):
        out = net(torch.randn(8, 6))
        loss = torch.log(out.square() * (1 - micro * step)).mean() / 2  # here
        loss.backward()
    opt.step()
"""
INSIDE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 4)
    def forward(self, x, y):
        p = torch.softmax(self.body(x) * 1e3, 1)
        loss = -(y * torch.log(p)).mean()  # here
        return {"loss": loss, "logits": p}
net = Net(); opt = torch.optim.AdamW(net.parameters())
for step in range(3):
    out = net(torch.randn(8, 6), torch.rand(8, 4))
    opt.zero_grad()
    out["loss"].backward()
    opt.step()
"""
CLOSURE = """
net = nn.Linear(6, 4); opt = torch.optim.LBFGS(net.parameters(), max_iter=2)
x = torch.randn(8, 6)
def closure():
    opt.zero_grad()
    loss = torch.log(torch.relu(net(x))).mean()  # here
    loss.backward()
    return loss
for step in range(2):
    opt.step(closure)
"""
POOL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(9, 5), nn.Linear(5, 4)
    def forward(self, x):
        keep = (x > 0).float()[:, :, None]
        mean = (self.emb(x) * keep).sum(1) / keep.sum(1)  # here
        return self.head(mean)
"""
TWIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4))
    def forward(self, x):
        return self.body(x)
"""
SEQUENTIAL = """
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.LogSoftmax(1)); opt = torch.optim.Adam(net.parameters())
for step in range(3):
    out = net(torch.randn(8, 6))
    keep = torch.zeros(8, dtype=torch.bool) if step else torch.ones(8, dtype=torch.bool)
    loss = -out[keep, 0].mean()  # here
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def data(value: str, row: int) -> str:
    """One corrupt row of the data from the second step on."""
    text = net("return h", before=f"x[{row}, 2] = {value} if step else 0.0")
    return text.replace("out = net(x)", "out = net(x)  # here")


def half(forward: str, kind: str) -> str:
    """The forward under autocast, the loss in full precision."""
    text = net(forward, "loss = F.mse_loss(out.float(), y)")
    return text.replace("    out = net(x)", f"    with torch.autocast('cpu', dtype=torch.{kind}):\n        out = net(x * 10)")


def whole(name: str, text: str, *ops: str, module: str = "", blame: str = "operation", **options: str) -> Fault:
    """A fault in a program of its own; with `x` or `y` given, in the usual loop."""
    shape = {"x": "torch.randn(8, 6)", "y": "torch.randn(8, 4)", "steps": "3", "before": "pass", **options}
    shape["loss"] = indent(shape.get("loss", "loss = F.mse_loss(out, y)"), " " * 4)
    return Fault(name, HEAD + text + ("" if "for step" in text else LOOP.format(**shape)), ops, module=module, blame=blame)


FAULTS = [
    # -- in the model, forward
    model("log of zero", "return torch.log(torch.relu(h))  # here", "log"),
    model("log1p of minus one", "return torch.log1p(-torch.sigmoid(h * 1e3))  # here", "log1p"),
    model("division by zero", "return h / (x[:, :4] * 0)  # here", "div"),
    model(
        "spread of one element",
        "return (h - h.mean(0)) / h.std(0)  # here",
        "std",
        x="torch.randn(1, 6)",
        y="torch.randn(1, 4)",
    ),
    model("softmax of a masked row", f"h = {MASKED}\nreturn h.softmax(-1)  # here", *SOFTMAX),
    model("exp overflow", "return torch.exp(h * 1e3)  # here", "exp"),
    model("exp normalised by hand", "e = torch.exp(h * 1e3)  # here\nreturn e / e.sum(1, keepdim=True)", "exp"),
    model("fractional power of a negative", "return (h - 10) ** 1.5  # here", "pow"),
    model("x over its magnitude", "h = h * (x[:, :4] > 0)\nreturn h / h.abs()  # here", "div"),
    model("zero vector normalised", "h = h * (x[:, :1] > 0)\nreturn h / h.norm(dim=1, keepdim=True)  # here", "div"),
    model(
        "cosine with a zero vector",
        "b = x[:, :4] * 0\nreturn (h * b).sum(1, keepdim=True) / (h.norm() * b.norm()) + h  # here",
        "div",
    ),
    model("cumprod overflow", "return torch.cumprod(h * 1e20, 1)  # here", "cumprod", blame="weights"),
    model("prod overflow", "return h + (h * 1e20).prod()  # here", "prod", blame="weights"),
    model("atanh at one", "return torch.atanh(torch.tanh(h * 1e3))  # here", "atanh"),
    model("logit at one", "return torch.logit(torch.sigmoid(h * 1e3))  # here", "logit"),
    model("rsqrt at zero", "return torch.rsqrt(torch.relu(h))  # here", "rsqrt"),
    model("root of a negative", "return torch.sqrt(h - 100)  # here", "sqrt"),
    model("reciprocal of zero", "return torch.relu(h).reciprocal()  # here", "reciprocal"),
    model("acos outside", "return torch.acos(h * 100)  # here", "acos"),
    model("a pole of lgamma", "return h + torch.lgamma(h * 0)  # here", "lgamma"),
    model("temperature of zero", "return h / self.t  # here", "div", init="self.t = nn.Parameter(torch.zeros(()))"),
    model(
        "constant feature standardised", "m = h - h.mean(0)\nreturn m / m.var(0).sqrt()  # here", "div", x="torch.zeros(8, 6)"
    ),
    model("log in a submodule", "return self.sigma(h)", "log", module="sigma", init="self.sigma = Sigma()", more=HEAD_MODULE),
    model("squares that outgrow", "return (h * 1e25).square()  # here", "square", "pow", blame="weights"),
    # -- in the model, backward
    model("root at zero", "return h + torch.sqrt((h - h).square())  # here", "sqrt", phase="backward"),
    model(
        "distance to itself", "d = ((h - h) ** 2).sum(1, keepdim=True)\nreturn h + d ** 0.5  # here", "pow", phase="backward"
    ),
    model(
        "where around a log",
        "h = h.square() * (x[:, :4] > 0)\ng = torch.log(h)  # here\nreturn torch.where(h > 0, g, torch.zeros_like(h))",
        "log",
        phase="backward",
    ),
    model("acos at one", "return h + torch.acos(torch.cos(h * 0))  # here", "acos", phase="backward"),
    model("custom function", "return Cube.apply(h)  # here", "Cube", phase="backward", more=CUBE),
    model(
        "degenerate eigenvectors",
        "w, v = torch.linalg.eigh(h.T @ h * 0 + torch.eye(4))  # here\nreturn h + v.sum()",
        "linalg_eigh",
        "_linalg_eigh",
        phase="backward",
        steps="1",
    ),
    model(
        "log in a submodule, backward",
        "return h + self.root(h - h)",
        "sqrt",
        phase="backward",
        module="root",
        init="self.root = Root()",
        more="""
        class Root(nn.Module):
            def forward(self, h):
                return torch.sqrt(h * h)  # here
        """,
    ),
    # -- in the loop
    loop("log of softmax", "p = torch.softmax(out * 1e3, 1)\nloss = -(torch.log(p) * y.softmax(1)).mean()  # here", "log"),
    loop("entropy by hand", "p = torch.softmax(out * 1e3, 1)\nloss = (p * p.log()).sum()  # here", "log"),
    loop("cross entropy by hand", "p = torch.sigmoid(out * 1e4)\nloss = -torch.log(1 - p).mean()  # here", "log"),
    loop("divergence by hand", "q = torch.relu(out)\nr = y.softmax(1) / q  # here\nloss = r.log().sum()", "div"),
    loop("mean over nothing", "loss = out[y > 1e9].mean()  # here", "mean"),
    loop("all targets ignored", "loss = F.cross_entropy(out, torch.full((8,), -100))  # here", "nll_loss_forward"),
    loop("logsumexp by hand", "e = torch.exp(out * 1e3)  # here\nloss = torch.log(e.sum(1)).mean()", "exp"),
    loop("poisson rate overflow", "loss = F.poisson_nll_loss(out * 1e3, y.abs())  # here", "exp"),
    loop("temperature in the loop", "loss = F.cross_entropy(out / 0.0, y.argmax(1))  # here", "div"),
    loop("squared error that outgrows", "loss = F.mse_loss(out * 1e30, y)  # here", "mse_loss", blame="weights"),
    loop("focal power", "p = torch.sigmoid(out * 1e3)\nloss = ((1 - p) ** 0.5).mean()  # here", "pow", phase="backward"),
    loop("root in the loop", "d = out - out\nloss = out.mean() + (d * d).sum().sqrt()  # here", "sqrt", phase="backward"),
    loop(
        "a module for a loss",
        "loss = nn.NLLLoss()(torch.log(torch.relu(out)), y.argmax(1))  # here",
        "log",
    ),
    # -- other shapes of programs
    whole("variational sampling", VAE, "exp", module="Net", y="torch.randn(8, 6)"),
    whole("attention over padding only", ATTENTION, *SOFTMAX, module="att"),
    whole("recurrent growth", RNN, *PRODUCTS, module="rnn", blame="weights"),
    whole("map over its maximum", CNN, "div", module="Net"),
    whole("generator against a sure judge", GAN, "log"),
    whole("second micro-batch", MICRO, "log"),
    whole("loss inside the model", INSIDE, "log", module="Net"),
    whole("inside a closure", CLOSURE, "log"),
    whole(
        "mean over an empty sequence",
        POOL,
        "div",
        module="Net",
        x="torch.tensor([[1, 2, 3]] * 5 + [[0] * 3] + [[4, 1, 0]] * 2)",
    ),
    whole("empty selection late", SEQUENTIAL, "mean"),
    # -- data and precision
    Fault("a NaN in the data", data("torch.nan", 3), ("input",), blame="batch", sample=3),
    Fault("an infinity in the data", data("torch.inf", 5), ("input",), blame="batch", sample=5),
    Fault("half precision overflow", half("return h * 1e4  # here", "float16"), ("mul",), module="Net", blame="precision"),
    Fault(
        "half precision rounding",
        half("return torch.log(1 - torch.sigmoid(h * 0.1 + 10))  # here", "bfloat16"),
        ("log",),
        module="Net",
        blame="precision",
    ),
]
