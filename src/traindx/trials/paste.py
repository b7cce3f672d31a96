"""Prescriptions as code to paste: schedules, clipping, scaling and the mixed-precision loop, with the measured numbers in place.

Everything uses `torch.optim.lr_scheduler`, `torch.nn.utils` and `torch.amp`; nothing of traindx is needed to run it.
"""

from __future__ import annotations


def _n(value: float) -> str:
    return f"{value:.3g}"


def schedules(start: float, peak: float) -> str:
    """The schedules that a range test can fill in, to choose one from."""
    said = "# four schedules: choose one, put it in place of your scheduler"
    return "\n\n".join((said, warmup_cosine(start), one_cycle(peak), cyclical(start, peak), warm_restarts(start)))


def one_cycle(peak: float) -> str:
    """One cycle up to `peak` and down to almost nothing; stepped once per update."""
    return f"""\
# one cycle up to the highest rate that the range test recommends
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr={_n(peak)}, total_steps=total_steps, pct_start=0.3)
# in the loop: optimizer.step(); scheduler.step()"""


def warmup_cosine(rate: float, floor: float = 0.1) -> str:
    """Linear warm-up, then a cosine down to a floor."""
    return f"""\
# warm-up over 3 % of the steps, then a cosine down to {floor:.0%} of the rate
highest = max(group["lr"] for group in optimizer.param_groups)
for group in optimizer.param_groups:  # groups keep their proportions
    group["lr"] *= {_n(rate)} / highest
warmup = max(1, round(0.03 * total_steps))
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total_steps - warmup, eta_min={_n(rate * floor)}),
    ],
    milestones=[warmup],
)
# in the loop: optimizer.step(); scheduler.step()"""


def cyclical(low: float, high: float) -> str:
    """Up and down between two rates."""
    return f"""\
# up and down between the start and the peak that the range test recommends; four epochs a half cycle
scheduler = torch.optim.lr_scheduler.CyclicLR(
    optimizer, base_lr={_n(low)}, max_lr={_n(high)}, step_size_up=4 * steps_per_epoch, cycle_momentum=False
)
# in the loop: optimizer.step(); scheduler.step()"""


def warm_restarts(rate: float) -> str:
    """A cosine that starts again, each time twice as long."""
    return f"""\
# a cosine that starts again, each time twice as long
highest = max(group["lr"] for group in optimizer.param_groups)
for group in optimizer.param_groups:  # groups keep their proportions
    group["lr"] *= {_n(rate)} / highest
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
    optimizer, T_0=10 * steps_per_epoch, T_mult=2, eta_min={_n(rate / 100)}
)
# in the loop: optimizer.step(); scheduler.step()"""


def clip(limit: float) -> str:
    """Clipping at a norm, at the right place."""
    return f"""\
# between backward() and step(); with a GradScaler after scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={_n(limit)})"""


def scaled(times: float, law: str) -> str:
    """The learning rate for a batch `times` as large."""
    factor = times if law == "linear" else times**0.5
    words = "linear rule" if law == "linear" else "square-root rule"
    return f"""\
# a batch {_n(times)} times as large, {words}
for group in optimizer.param_groups:
    group["lr"] *= {_n(factor)}"""


def mixed_precision(dtype: str = "bfloat16") -> str:
    """The loop under autocast; fp16 needs a scaler, bf16 does not."""
    if dtype == "bfloat16":
        return """\
for x, y in loader:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):  # forward and loss only
        loss = loss_fn(model(x), y)
    loss.backward()  # outside of autocast
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    scheduler.step()"""
    return """\
scaler = torch.amp.GradScaler(device)
for x, y in loader:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type=x.device.type, dtype=torch.float16):  # forward and loss only
        loss = loss_fn(model(x), y)
    scaler.scale(loss).backward()  # outside of autocast
    scaler.unscale_(optimizer)  # before clipping, or the limit means nothing
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:  # a skipped step must not move the schedule
        scheduler.step()"""


def every() -> dict[str, str]:
    """All of them with example numbers, for the documentation and the tests."""
    return {
        "warm-up and cosine with a floor": warmup_cosine(3e-4),
        "one cycle, from the range test": one_cycle(1e-2),
        "cyclical, between start and peak": cyclical(1e-4, 1e-2),
        "warm restarts": warm_restarts(1e-2),
        "clipping at the usual norm": clip(1.0),
        "a larger batch, linear": scaled(4, "linear"),
        "a larger batch, square root": scaled(4, "sqrt"),
        "mixed precision, bf16": mixed_precision("bfloat16"),
        "mixed precision, fp16": mixed_precision("float16"),
    }
