"""How evaluation is run, against slow twins; sick evaluations and their healed versions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from probes.watched import watched
from traindx.probe import Forward
from traindx.probes.drive.patches import PATCHES
from traindx.probes.read.loss import class_figures
from traindx.probes.read.loss.batch_sums import traits_of
from traindx.probes.read.loss.validation import Evaluations, metric_kind
from traindx.run import Run

G = torch.Generator().manual_seed(1)
X = torch.randn(624, 8, generator=G)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


def loop(
    box: dict[str, Any], *, mode: bool = True, grad: bool = False, loss: bool = True, stale: bool = False, epochs: int = 3
) -> None:
    train = DataLoader(TensorDataset(X[:400], Y[:400]), 32, shuffle=True)
    val = DataLoader(TensorDataset(X[400:], Y[400:]), 50)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    judged = copy.deepcopy(model) if stale else model
    for _ in range(epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if mode:
            judged.eval()
        outputs = []
        with torch.set_grad_enabled(grad):
            for x, y in val:
                outputs.append(judged(x))
                if loss:
                    F.cross_entropy(outputs[-1], y)
        box["logits"] = torch.cat(outputs).detach()


def evaluated(**options: Any) -> tuple[Run, Tensor]:
    box: dict[str, Any] = {}
    run = watched(lambda: loop(box, **options), Evaluations(), budget=0.01)
    return run, box["logits"]


@pytest.mark.parametrize("loss", [True, False])
def test_figures_equal_a_slow_twin_with_and_without_a_loss_call(loss):
    run, logits = evaluated(loss=loss)
    y = Y[400:]
    assert len(run["accuracy/val"]) == 3
    assert run["accuracy/val"].last == pytest.approx(float((logits.argmax(1) == y).float().mean()))
    assert run["confidence/val"].last == pytest.approx(float(logits.softmax(1).max(1).values.mean()), rel=1e-5)
    assert run["loss/val"].last == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-5)
    each = F.cross_entropy(logits, y, reduction="none")
    assert run["eval/loss_se"].last == pytest.approx(float(each.std() / len(y) ** 0.5), rel=0.1)
    assert run["eval/support/class"].values[-1].tolist() == torch.bincount(y).tolist()
    assert run["eval/predicted/class"].values[-1].tolist() == torch.bincount(logits.argmax(1), minlength=3).tolist()
    recall = [float((logits.argmax(1) == c)[y == c].float().mean()) for c in range(3)]
    assert run["eval/recall/class"].values[-1].tolist() == pytest.approx(recall)
    assert np.trace(run.fact("eval.confusion")) == int((logits.argmax(1) == y).sum())
    assert set(run.fact("eval.auroc")) == {"0", "1", "2"}
    assert 0 < run.fact("eval.ece") < 0.5
    order = each.argsort(descending=True)[:10]  # the worst samples, by their place in the order of evaluation
    assert [w["sample"] for w in run.fact("eval.worst")] == order.tolist()
    assert [w["loss"] for w in run.fact("eval.worst")] == pytest.approx(each[order].tolist(), rel=1e-4)
    assert [(w["target"], w["predicted"]) for w in run.fact("eval.worst")] == [
        (int(y[i]), int(logits[i].argmax())) for i in order
    ]


@pytest.mark.parametrize("moved", [False, True])
def test_outputs_meet_the_labels_of_their_own_batch_where_a_loader_fetches_ahead(moved):
    """As accelerate does: the next batch is there before this one is given out."""
    box: dict[str, Any] = {}

    def ahead(loader: DataLoader) -> Any:
        rows = iter(loader)
        this = next(rows)
        for following in rows:
            yield [t.clone() for t in this] if moved else this
            this = following
        yield [t.clone() for t in this] if moved else this

    def script() -> None:
        train, val = DataLoader(TensorDataset(X[:400], Y[:400]), 32), DataLoader(TensorDataset(X[400:600], Y[400:600]), 50)
        model = nn.Linear(8, 3)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(3):
            for x, y in train:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                box["logits"] = torch.cat([model(x) for x, _ in ahead(val)])

    run = watched(script, Evaluations(), budget=0.01)
    right = (box["logits"].argmax(1) == Y[400:600]).float()
    if moved:  # copied, as to another device: nothing tells which batch it was
        assert "accuracy/val" not in run.signals
    else:
        assert run["accuracy/val"].last == pytest.approx(float(right.mean()))


def test_a_healthy_evaluation_changes_nothing_and_sees_weights_move():
    run, _ = evaluated()
    assert run["eval/buffers_changed"].values.tolist() == [0, 0, 0]
    assert run["eval/weights_differ"].values.tolist() == [0, 0, 0]
    assert run["weights_moved"].values.tolist() == [1, 1]


def test_an_evaluation_in_training_mode_touches_the_statistics():
    run, _ = evaluated(mode=False)
    assert run["eval/buffers_changed"].values[1:].tolist() == [1, 1]


def test_an_evaluation_that_builds_graphs_is_still_scored():
    run, logits = evaluated(grad=True)
    assert run["accuracy/val"].last == pytest.approx(float((logits.argmax(1) == Y[400:]).float().mean()))


def test_a_stale_copy_is_seen():
    run, _ = evaluated(stale=True)
    assert run["eval/weights_differ"].values.all()
    assert run["weights_moved"].values.all()


def test_a_learning_rate_of_zero_moves_nothing():
    def still() -> None:
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        for _ in range(3):
            for x, y in DataLoader(TensorDataset(X[:64], Y[:64]), 32):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for x, y in [(X[400:], Y[400:])]:
                    F.cross_entropy(model(x), y)

    assert not watched(still, Evaluations())["weights_moved"].values.any()


def test_binary_and_regression_losses_are_evaluated_too():
    def both(kind: str) -> Any:
        def inner() -> None:
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            target = (X[:, :1] > 0).float()
            call = F.binary_cross_entropy_with_logits if kind == "bce" else F.mse_loss
            for _ in range(3):
                for i in range(0, 128, 32):
                    optimizer.zero_grad()
                    call(model(X[i : i + 32]), target[i : i + 32]).backward()
                    optimizer.step()
                with torch.no_grad():
                    call(model(X[400:]), target[400:])

        return inner

    binary = watched(both("bce"), Evaluations())
    assert binary["accuracy/val"].last > 0.5
    assert binary["eval/support/class"].names == ("0", "1")
    plain = watched(both("mse"), Evaluations())
    assert "accuracy/val" not in plain
    for found in (binary.fact("eval.worst"), plain.fact("eval.worst")):
        assert len(found) == 10 and found[0]["loss"] == max(w["loss"] for w in found)
        assert {w["target"] for w in found} <= {0, 1}
    assert {w["predicted"] for w in binary.fact("eval.worst")} <= {0, 1}


def test_temperature_undoes_overconfidence():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 5))
    targets = np.array([rng.choice(5, p=p) for p in np.exp(class_figures.log_softmax(logits))])
    degree, gain = class_figures.temperature(3 * logits, targets)
    assert degree == pytest.approx(3, rel=0.1)
    assert gain > 0.1
    calm, nothing = class_figures.temperature(logits, targets)
    assert calm == pytest.approx(1, rel=0.1)
    assert abs(nothing) < 0.01


def test_calibration_error_is_small_for_honest_probabilities():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 3))
    targets = np.array([rng.choice(3, p=p) for p in np.exp(class_figures.log_softmax(logits))])
    assert class_figures.ece(logits, targets) < 0.03
    assert class_figures.ece(5 * logits, targets) > 0.2


def test_auroc_equals_sklearn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    logits[np.arange(300), targets] += 1
    p = np.exp(class_figures.log_softmax(logits))
    for c, area in class_figures.auroc(logits, targets).items():
        assert area == pytest.approx(roc_auc_score(targets == int(c), p[:, int(c)]))


def test_the_worst_slice_comes_first():
    rng = np.random.default_rng(0)
    brightness = rng.random(800)
    losses = rng.random(800) + 3 * (brightness < 0.25)
    found = class_figures.slices(losses, {"brightness": brightness})
    assert found[0]["slice"].startswith("brightness 0")
    assert found[0]["p"] < 1e-6
    assert found[0]["loss"] > 2 * found[0]["mean_loss"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("val_acc", "accuracy"),
        ("val/accuracy", "accuracy"),
        ("valid_loss", "loss"),
        ("loss", "loss"),
        ("val_f1", None),
        ("lr", None),
    ],
)
def test_metric_names_are_read_or_left_alone(name, kind):
    assert metric_kind(name) == kind


# -- slices by columns of one's own, and samples that are kept


class Sited(torch.utils.data.Dataset[dict[str, Any]]):
    """Samples with the site they came from; those of one site carry labels of no use."""

    def __init__(self, lo: int, hi: int) -> None:
        self.at = range(lo, hi)

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, i: int) -> dict[str, Any]:
        i, site = self.at[i], ("north", "south", "east")[i % 3]
        return {"x": X[i], "label": (Y[i] + (1 if site == "east" else 0)) % 3, "site": site}


def sited(say: Any = None, probes: Any = None) -> Run:
    def loop() -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        train = DataLoader(TensorDataset(X[:300], Y[:300]), 30, shuffle=True)
        val = DataLoader(Sited(300, 624), 54)
        for _ in range(6):
            for x, y in train:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for batch in val:
                    out = model(batch["x"])
                    F.cross_entropy(out, batch["label"])
                    if say is not None:
                        say(batch)

    return watched(loop, Evaluations())


def test_words_that_come_along_with_a_batch_are_slices():
    rows = sited().fact("eval.slices")
    assert rows[0]["slice"] == "site east" and rows[0]["n"] == 108 and rows[0]["loss"] > 2 * rows[0]["mean_loss"]
    assert {r["slice"] for r in rows} == {"site east", "site north", "site south"}


def test_columns_the_user_logs_are_slices_before_and_after_the_loss():
    def say(batch: Any) -> None:
        numbers = [("north", "south", "east").index(s) for s in batch["site"]]
        PATCHES.observers[0].told("on_columns", {"area": numbers, "too short": numbers[:-1]})

    rows = sited(say).fact("eval.slices")
    assert rows[0]["slice"] in ("area 2", "site east") and {"area 0", "area 1", "area 2"} < {r["slice"] for r in rows}
    assert not any("too short" in r["slice"] for r in rows)


def test_average_precision_equals_a_slow_twin():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 3, 90)
    logits = np.round(rng.normal(size=(90, 3)) + 1.5 * np.eye(3)[targets], 1)
    found = class_figures.average_precision(logits, targets)
    from sklearn.metrics import average_precision_score

    scores = class_figures.log_softmax(logits)
    for c in range(3):
        assert found[str(c)] == pytest.approx(average_precision_score(targets == c, scores[:, c]))


def test_padded_tokens_have_a_length_without_a_mask():
    ids = torch.randint(1, 50, (40, 12))
    for i in range(40):
        ids[i, 4 + i % 8 :] = 0
    forward = Forward(0, nn.Identity(), (ids,), {}, None, "val", False, False)
    assert traits_of(forward)["length"].tolist() == [4 + i % 8 for i in range(40)]


@pytest.mark.parametrize("loss", [True, False])
def test_evaluations_beyond_the_budget_leave_their_loss_only(loss, monkeypatch):
    everything, _ = evaluated(loss=loss, epochs=12)
    monkeypatch.setattr("traindx.probes.read.loss.validation._FREE", 0)
    monkeypatch.setattr("traindx.probes.read.loss.validation._GROWTH", 2.0)
    monkeypatch.setattr("traindx.probes.read.common.allowance.Allowance.granted", lambda self: False)
    monkeypatch.setattr("traindx.probes.drive.plan.Plan.full", lambda self, step: step < 20)
    run, _ = evaluated(loss=loss, epochs=12)
    assert len(everything["accuracy/val"]) == 12 and 3 <= len(run["accuracy/val"]) <= 5
    assert run["accuracy/val"].values.tolist() == everything["accuracy/val"].at(run["accuracy/val"].steps).tolist()
    if loss:
        assert run["loss/val"].steps.tolist() == everything["loss/val"].steps.tolist()
        assert run["loss/val"].values.tolist() == pytest.approx(everything["loss/val"].values.tolist(), rel=1e-5)


def test_a_metric_is_never_compared_with_another_evaluation(monkeypatch):
    monkeypatch.setattr("traindx.probes.read.loss.validation._FREE", 0)
    monkeypatch.setattr("traindx.probes.read.loss.validation._GROWTH", 1e9)
    monkeypatch.setattr("traindx.probes.read.common.allowance.Allowance.granted", lambda self: False)
    monkeypatch.setattr("traindx.probes.drive.plan.Plan.full", lambda self, step: False)
    train = DataLoader(TensorDataset(X[:400], Y[:400]), 32, shuffle=True)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)

    def run_() -> None:
        for _ in range(4):
            for x, y in train:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                out = model(X[400:])
                F.cross_entropy(out, Y[400:])
                right = float((out.argmax(1) == Y[400:]).float().mean())
            PATCHES.report("on_metric", "metric/val/accuracy", right)

    pairs = watched(run_, Evaluations(), budget=0.01).fact("eval.metric_recomputed") or {}
    assert all(abs(a - b) < 1e-6 for a, b in [v[:2] for v in pairs.values()])


@pytest.mark.parametrize("target", ["class", "token", "number"])
def test_a_summed_validation_loss_has_one_scale_whether_described_or_not(target, monkeypatch):
    monkeypatch.setattr("traindx.probes.read.loss.validation._FREE", 0)
    monkeypatch.setattr("traindx.probes.read.loss.validation._GROWTH", 2.0)
    monkeypatch.setattr("traindx.probes.read.common.allowance.Allowance.granted", lambda self: False)
    monkeypatch.setattr("traindx.probes.drive.plan.Plan.full", lambda self, step: step < 20)
    model = nn.Linear(8, 3)
    goal = {"class": Y[:120], "token": Y[:120].reshape(40, 3).clone(), "number": X[:120, :3].clone()}[target]
    if target == "token":
        goal[:, 2] = -100

    def loss(reduction: str) -> torch.Tensor:
        out = model(X[:120])
        if target == "number":
            return F.mse_loss(out, goal, reduction=reduction)
        return F.cross_entropy(out, goal.reshape(-1), reduction=reduction)

    def run_() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(40):
            optimizer.zero_grad()
            loss("mean").backward()
            optimizer.step()
            with torch.no_grad():
                loss("sum").item()

    values = watched(run_, Evaluations(), budget=0.01)["loss/val"].values
    assert len(values) == 40 and abs(np.diff(np.log(values))).max() < 0.05


def _beside(first: Any, second: Any, anew: bool = False) -> Run:
    """Two sets are scored after every epoch, the first of them first."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(3))
    data = TensorDataset(x, (x[:, 0] > 0).long())
    train = Subset(data, range(200))

    def loop() -> None:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        sets = [DataLoader(part(data, train), 50) for part in (first, second)]
        for _ in range(3):
            for a, b in DataLoader(train, 20):
                optimizer.zero_grad()
                F.cross_entropy(model(a), b).backward()
                optimizer.step()
            with torch.no_grad():
                for part in sets:
                    for a, b in DataLoader(part.dataset, 50) if anew else part:
                        F.cross_entropy(model(a), b)

    return watched(loop, Evaluations())


@pytest.mark.parametrize("anew", [False, True])
def test_of_two_sets_that_are_scored_the_one_that_is_not_trained_on_is_validation(anew: bool) -> None:
    part, held = (lambda _, train: Subset(train, range(100))), (lambda data, _: Subset(data, range(200, 400)))
    for sets in ((part, held), (held, part)):
        run = _beside(*sets, anew=anew)
        late = run.series("eval/samples").values[1:]
        assert late.tolist() == [200.0] * len(late) and len(late) >= 2
        assert len(run.series("accuracy/val")) == len(run.series("eval/samples")) >= 3
        assert len(run.series("metric/other/loss")) >= 2


def plainly(evaluate: Any, steps: int = 8, epochs: int = 3) -> Run:
    """Tensors without a loader; after each epoch `evaluate(model)` says what the script itself makes of it."""

    def script() -> None:
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(epochs):
            for i in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(model(X[32 * i : 32 * i + 32]), Y[32 * i : 32 * i + 32]).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                evaluate(model)
            model.train()

    return watched(script, Evaluations(), budget=0.01)


def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return sum(F.cross_entropy(model(x[i : i + 50]), y[i : i + 50]).item() for i in range(0, len(x), 50)) / (len(x) // 50)


def test_two_sets_of_plain_tensors_stay_two():
    said: list[float] = []

    def both(model: nn.Module) -> None:
        said.append(mean_loss(model, X[300:400], Y[300:400]))
        mean_loss(model, X[400:500] + 3, Y[400:500])

    run = plainly(both)
    assert run["loss/val"].values.tolist() == pytest.approx(said, rel=1e-5)
    assert len(run["metric/other/loss"]) == 3
    assert set(run["eval/samples"].values.tolist()) == {100}


def test_places_in_the_code_that_take_turns_are_one_evaluation():
    said: list[float] = []

    def clean_and_noisy(model: nn.Module) -> None:
        losses = []
        for i in range(300, 500, 50):
            losses.append(F.cross_entropy(model(X[i : i + 50]), Y[i : i + 50]).item())
            losses.append(F.cross_entropy(model(X[i : i + 50] + 0.1), Y[i : i + 50]).item())
        said.append(sum(losses) / len(losses))

    run = plainly(clean_and_noisy)
    assert run["loss/val"].values.tolist()[1:] == pytest.approx(said[1:], rel=1e-5)


@pytest.mark.parametrize("read", [True, False])
def test_the_validation_loss_has_all_the_terms_that_the_script_adds_up(read):
    """Where the script reads no loss, its terms alone are not taken for it."""
    said: list[float] = []

    def script() -> None:
        model, other = nn.Linear(8, 3), nn.Linear(8, 8)
        optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], 1e-2)
        train, val = DataLoader(TensorDataset(X[:400], Y[:400]), 32), DataLoader(TensorDataset(X[400:600], Y[400:600]), 50)

        def objective(x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), y) + 10 * F.mse_loss(other(x), x.flip(1))

        for _ in range(3):
            for x, y in train:
                optimizer.zero_grad()
                objective(x, y).backward()
                optimizer.step()
            with torch.no_grad():
                losses = [objective(x, y).item() if read else objective(x, y) for x, y in val]
                said.append(float(sum(losses)) / 4)

    run = watched(script, Evaluations(), budget=0.01)
    if read:
        assert run["loss/val"].values.tolist() == pytest.approx(said, rel=1e-5)
    else:
        assert "loss/val" not in run.signals


def test_a_policy_at_work_is_no_evaluation_and_soon_left_alone():
    left: list[list[int]] = []

    def script() -> None:
        actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        optimizer = torch.optim.Adam(actor.parameters(), 1e-3)
        for _ in range(6):
            states, actions = [], []
            for _ in range(20):
                state = torch.randn(4)
                with torch.no_grad():
                    action = torch.distributions.Categorical(logits=actor(state[None])).sample()
                states.append(state)
                actions.append(action)
                float(state.mean())
            chosen = torch.cat(actions)
            for _ in range(4):
                told = torch.distributions.Categorical(logits=actor(torch.stack(states))).log_prob(chosen)
                loss = -told.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            left.append(sorted(PATCHES.acts))

    run = watched(script, Evaluations(), budget=0.01)
    assert left == [[], [], [1], [1], [1], [1]]  # from the fourth rollout on, passes over one sample are not heard of
    assert run.fact("acts") is True
    assert "loss/val" not in run.signals and not run.events_of("evaluation")


def test_a_target_network_and_a_policy_at_every_update_are_no_evaluation():
    def script() -> None:
        values, target = nn.Linear(4, 2), nn.Linear(4, 2)
        optimizer = torch.optim.Adam(values.parameters(), 1e-3)
        for step in range(80):
            state = torch.randn(4)
            if step % 10:
                with torch.no_grad():
                    int(values(state[None]).argmax())
            float(state.abs().mean())  # near the loss: it must not be taken for one
            with torch.no_grad():
                wanted = target(torch.randn(64, 4)).max(1).values
            optimizer.zero_grad()
            F.smooth_l1_loss(values(torch.randn(64, 4))[:, 0], wanted).backward()
            optimizer.step()

    run = watched(script, Evaluations(), budget=0.01)
    assert "loss/val" not in run.signals and not run.events_of("evaluation")
    assert run.fact("acts") is True
