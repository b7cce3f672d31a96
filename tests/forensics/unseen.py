"""A second set of planted faults, in other styles than `faults.py`: written with their answers before any of them was run.

At that first run operation, module and line were right in all 17 that can be replayed; one blame was not (of 18 programs; the
one without any module says why it is not replayed). Four first drafts were no faults at all: torch itself guards `atan2`,
the norm at zero and a ReLU below a power, and refuses -1e9 in half precision.
"""

from __future__ import annotations

from tests.forensics.faults import HEAD, Fault


def script(name: str, text: str, *ops: str, phase: str = "forward", module: str = "", blame: str = "operation") -> Fault:
    """A fault in a program of its own."""
    return Fault(name, HEAD + text, ops, phase, module, blame)


PENALTY = """
critic = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)

def penalty(real):
    real = real.clone().requires_grad_(True)
    score = critic(real * 0).sum() + 0 * real.sum()
    (slope,) = torch.autograd.grad(score, real, create_graph=True)
    return (slope.square().sum(1).sqrt() - 1).square().mean()  # here

for it in range(3):
    optimizer.zero_grad()
    real = torch.randn(6, 5)
    total = critic(real).mean() + penalty(real)
    total.backward()
    optimizer.step()
"""
GAUSSIAN = """
from torch.distributions import Normal

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.spread = nn.Linear(4, 2)
        nn.init.zeros_(self.spread.weight); nn.init.constant_(self.spread.bias, -200.0)
    def forward(self, s):
        return self.mean(s), self.spread(s).exp()

policy = Policy()
opt = torch.optim.Adam(policy.parameters())
for update in range(4):
    mu, sigma = policy(torch.randn(16, 4))
    actions = torch.randn(16, 2)
    z = (actions - mu) / sigma  # here
    logp = -0.5 * z.pow(2) - sigma.log()
    loss = -(logp.sum(-1) * torch.randn(16)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
RMS = """
class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
    def forward(self, h):
        return self.gain * h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))  # here

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = RMSNorm(8), nn.Linear(8, 8)
    def forward(self, h):
        return h + self.mix(self.norm(h))

class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(11, 8, padding_idx=0)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 11)
    def forward(self, ids):
        h = self.tok(ids)
        for block in self.blocks:
            h = block(h)
        return self.head(h)

lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
for step in range(3):
    ids = torch.randint(1, 11, (4, 6)); ids[1, 4:] = 0
    loss = F.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
"""
SINKHORN = """
class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(3, 4)
    def forward(self, a, b):
        cost = torch.cdist(self.left(a), self.right(b)) * 400
        plan = torch.exp(-cost)
        for _ in range(5):
            plan = plan / plan.sum(1, keepdim=True)  # here
            plan = plan / plan.sum(0, keepdim=True)
        return (plan * cost).sum()

m = Matcher()
o = torch.optim.SGD(m.parameters(), lr=1e-3)
for i in range(2):
    o.zero_grad()
    value = m(torch.randn(5, 3), torch.randn(5, 3))
    value.backward()
    o.step()
"""
TRAINER = """
from torch.utils.data import DataLoader, TensorDataset

class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.sched = torch.optim.lr_scheduler.StepLR(self.optim, 2)
    def criterion(self, pred, target):
        weight = target.float().mean()
        return F.binary_cross_entropy_with_logits(pred, target.float(), pos_weight=(1 - weight) / weight)  # here
    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in self.loader:
                self.optim.zero_grad()
                self.criterion(self.model(x).squeeze(1), y).backward()
                self.optim.step()
            self.sched.step()

x = torch.randn(32, 5); y = (torch.rand(32) > 0.5).long(); y[16:24] = 0
Trainer(nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Linear(9, 1)), DataLoader(TensorDataset(x, y), batch_size=8)).fit(2)
"""
TOPIC = """
class Encoder(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.bow = nn.EmbeddingBag(30, 6, mode="sum")
        self.out = nn.Linear(6, k)
    def forward(self, ids, offsets):
        return self.out(self.bow(ids, offsets))

enc = Encoder(3)
opt = torch.optim.RMSprop(enc.parameters())
for step in range(3):
    ids = torch.randint(0, 30, (12,)); offsets = torch.tensor([0, 4, 4, 8])
    lengths = torch.diff(offsets, append=torch.tensor([12]))
    logits = enc(ids, offsets) / lengths[:, None]  # here
    loss = F.cross_entropy(logits, torch.tensor([0, 1, 2, 0]))
    opt.zero_grad(); loss.backward(); opt.step()
"""
MIXTURE = """
def log_mixture(x, logits, mu, log_s):
    p = torch.softmax(logits, -1)
    density = p * torch.exp(-0.5 * ((x[:, None] - mu) / log_s.exp()) ** 2) / log_s.exp()
    return torch.log(density.sum(-1))  # here

net = nn.Linear(2, 9)
opt = torch.optim.Adam(net.parameters(), lr=0.05)
x = torch.randn(20) * 60
for _ in range(3):
    a, b, c = net(torch.randn(20, 2)).split(3, -1)
    nll = -log_mixture(x, a, b, c).mean()
    opt.zero_grad(); nll.backward(); opt.step()
"""
COVARIANCE = """
class Whiten(nn.Module):
    def forward(self, z):
        z = z - z.mean(0)
        cov = z.T @ z / (len(z) - 1)  # here
        return z @ cov

class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.white = nn.Linear(6, 3), Whiten()
    def forward(self, x):
        return self.white(self.proj(x))

tower = Tower()
opt = torch.optim.SGD(tower.parameters(), lr=1e-3)
data = torch.randn(9, 6)
for batch in (*data.split(4), *data.split(4)):
    loss = (tower(batch) - 1).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)
    def forward(self, h):
        r = self.lin(h) * (h > 0)
        return h * (r * r) ** 0.5  # here

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([Gate(), Gate()])
        self.head = nn.Linear(6, 1)
    def forward(self, x):
        for gate in self.gates:
            x = checkpoint(gate, x, use_reentrant=False)
        return self.head(x)

deep = Deep()
opt = torch.optim.SGD(deep.parameters(), lr=0.01)
for _ in range(2):
    opt.zero_grad()
    F.mse_loss(deep(torch.randn(8, 6, requires_grad=True)), torch.zeros(8, 1)).backward()
    opt.step()
"""
ANGLE = """
class Heading(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.xy = nn.Linear(8, 2, bias=False)
    def forward(self, obs):
        v = self.xy(self.features(obs))
        return torch.acos(F.cosine_similarity(v, v, dim=-1).clamp(-1, 1))  # here

net = Heading()
opt = torch.optim.Adam(net.parameters())
for _ in range(2):
    loss = (1 - torch.cos(net(torch.randn(10, 4)) - 0.3)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
SPECTRUM = """
class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1, bias=False)
    def forward(self, wave):
        power = torch.fft.rfft(self.conv(wave)).abs() ** 2
        return torch.log10(power)  # here

net = Spectral()
opt = torch.optim.Adam(net.parameters())
for step in range(3):
    wave = torch.randn(4, 1, 16)
    wave[2] = 0.0
    loss = F.l1_loss(net(wave), torch.zeros(4, 2, 9))
    opt.zero_grad(); loss.backward(); opt.step()
"""
HINGE = """
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    def forward(self, a, b):
        return self.embed(a), self.embed(b)

def contrastive(u, v, same, margin=1.0):
    d = torch.sqrt(torch.sum((u - v) ** 2, dim=1))  # here
    return (same * d ** 2 + (1 - same) * torch.clamp(margin - d, min=0) ** 2).mean()

net = Siamese()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(2):
    a = torch.randn(6, 5); b = torch.randn(6, 5); b[3] = a[3]
    u, v = net(a, b)
    loss = contrastive(u, v, torch.tensor([1.0, 0, 1, 0, 1, 0]))
    opt.zero_grad(); loss.backward(); opt.step()
"""
RATES = """
model = nn.ModuleDict({"body": nn.Linear(4, 4), "rate": nn.Linear(4, 1)})
class Hawkes(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = parts
    def forward(self, x, gaps):
        h = torch.tanh(self.parts["body"](x))
        rate = self.parts["rate"](h).squeeze(-1)
        decay = torch.expm1(rate * gaps)  # here
        return decay / rate

net = Hawkes(model)
opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
for step in range(3):
    gaps = torch.rand(12) * (1.0 if step < 1 else 5e4)
    nll = net(torch.randn(12, 4), gaps).mean()
    opt.zero_grad(); nll.backward(); opt.step()
"""
CASTED = """
class Attend(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
    def forward(self, x, pad):
        s = self.q(x) @ self.k(x).transpose(1, 2)  # here
        s = (s / 4).masked_fill(pad[:, None, :], -1e4)
        return s.softmax(-1) @ self.v(x)

net = Attend()
opt = torch.optim.AdamW(net.parameters())
for _ in range(2):
    x = torch.randn(3, 5, 16) * 300; pad = torch.zeros(3, 5, dtype=torch.bool); pad[1] = True
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x, pad)
        loss = out.float().pow(2).mean()
    loss.backward()
    opt.step()
"""
UNROLLED = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.eye(4) * 30)
    def forward(self, h, x):
        return h @ self.w + x  # here

cell = Cell()
readout = nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *readout.parameters()], lr=1e-9)
for _ in range(2):
    seq = torch.randn(3, 32, 4)
    h = torch.zeros(3, 4)
    for t in range(seq.shape[1]):
        h = cell(h, seq[:, t])
    loss = readout(h).sum()
    opt.zero_grad(); loss.backward(); opt.step()
"""
DICE = """
class UNetish(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 1, 2, stride=2)
    def forward(self, im):
        return self.up(F.relu(self.down(im)))

def dice(logits, mask):
    p = (logits.sigmoid() > 0.5).float() * logits.sigmoid()
    both = (p * mask).sum((1, 2, 3))
    return 1 - (2 * both / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)))).mean()  # here

net = UNetish()
opt = torch.optim.Adam(net.parameters())
with torch.no_grad():
    net.up.bias.fill_(-1e3)
for _ in range(2):
    mask = (torch.rand(3, 1, 8, 8) > 0.7).float(); mask[0] = 0
    loss = dice(net(torch.randn(3, 1, 8, 8)), mask)
    opt.zero_grad(); loss.backward(); opt.step()
"""
WITHOUT_A_MODULE = f"""{HEAD}
w1 = torch.randn(5, 8, requires_grad=True); w2 = torch.randn(8, 1, requires_grad=True)
for step in range(3):
    x = torch.randn(12, 5)
    hidden = torch.tanh(x @ w1)
    logit = (hidden @ w2 * 90).squeeze()
    p = 1 / (1 + torch.exp(-logit))
    loss = -(torch.log(p) + torch.log(1 - p)).mean()  # here
    loss.backward()
    with torch.no_grad():
        for w in (w1, w2):
            w -= 0.01 * w.grad
            w.grad = None
"""
BETA = """
class Shape(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)
    def forward(self, x):
        return F.softplus(self.lin(x)).unbind(-1)

net = Shape()
opt = torch.optim.Adam(net.parameters())
for step in range(3):
    share = torch.rand(10).clamp(0, 1)
    share[4] = 1.0
    a, b = net(torch.randn(10, 3))
    loss = -((a - 1) * share.log() + (b - 1) * (1 - share).log() + torch.lgamma(a + b)).mean()  # here
    opt.zero_grad(); loss.backward(); opt.step()
"""
TARGETS = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters())
x, y = torch.randn(60, 4), torch.randn(60, 1)
y[47] = float("BAD")
for i in torch.arange(60).split(10):
    loss = F.CALL(net(x[i]), TAKEN)  # here
    opt.zero_grad(); loss.backward(); opt.step()
"""


def targets(bad: str, call: str = "mse_loss", taken: str = "y[i]") -> str:
    return TARGETS.replace("BAD", bad).replace("CALL", call).replace("TAKEN", taken)


HALF = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).half()
opt = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(3):
    x = torch.full((6, 4), 100.0 if step == 2 else 0.01).half()
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[2].weight.copy_(torch.tensor([1e3, -1e3, 1e3]).half()[:, None].expand(3, 8))
    loss = F.cross_entropy(net(x), torch.tensor([0, 1, 2, 0, 1, 2]))  # here
    opt.zero_grad(); loss.backward(); opt.step()
"""

UNSEEN = [
    script("an infinity in the targets", targets("inf"), "target", blame="batch"),
    script("a NaN in the targets", targets("nan"), "target", blame="batch"),
    script(
        "a NaN in targets that are flattened",
        targets("nan", "smooth_l1_loss", "y[i].flatten()[:, None]"),
        "target",
        blame="batch",
    ),
    script(
        "a NaN in probabilities", targets("nan", "binary_cross_entropy_with_logits", "y[i].sigmoid()"), "target", blame="batch"
    ),
    script("a layer beyond half precision", HALF, "addmm", "linear", module="2", blame="precision"),
    script("gradient penalty at a flat critic", PENALTY, "sqrt", phase="backward"),
    script("spread that vanished", GAUSSIAN, "div"),
    script("norm without epsilon over padding", RMS, "rsqrt", module="blocks.0.norm"),
    script("transport plan that underflows", SINKHORN, "div", module="Matcher"),
    script("class weight of a batch without positives", TRAINER, "div", "reciprocal"),
    script("empty bag", TOPIC, "div"),
    script("mixture far from the data", MIXTURE, "log"),
    script("covariance of one sample", COVARIANCE, "div", module="white"),
    script("gate under checkpointing", CHECKPOINTED, "pow", phase="backward", module="gates.1"),
    script("angle with itself", ANGLE, "acos", phase="backward", module="Heading"),
    script("spectrum of silence", SPECTRUM, "log10", module="Spectral"),
    script("identical pair", HINGE, "sqrt", phase="backward"),
    script("rate that outgrows", RATES, "expm1", module="Hawkes"),
    script("scores beyond half precision", CASTED, "bmm", "matmul", module="Attend", blame="precision"),
    script("unrolled growth", UNROLLED, "mm", "matmul", "add", module="Cell", blame="weights"),
    script("overlap of nothing", DICE, "div"),
    script("density at the edge", BETA, "log"),
]
