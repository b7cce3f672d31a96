"""The model sees what it should predict: a sequence model can see what it is asked to predict.

## What it sees

Targets that equal the input at the same position (at least `identity` of them) while the loss falls to nothing: the
shift by one is missing. The same holds in a model whose attention is all causal, because nobody needs that to copy an
input. Targets that equal the input two positions later, and no loss with targets one position later: the shift was made
twice, in the data and in the model. A decoder with a source that is given its own targets. Recurrent layers that read
both ways in a model of the next token. Self-attention without any mask in a model that predicts the next token. Or
masks that leave later positions open to nearly every query: a diagonal that is off by one, or padding masked and
nothing else. The dependency trial over time: outputs that have a gradient with respect to later inputs. And, as a
question only, a next-token loss that is close to zero in training and validation.

## Why it matters

The loss is wonderful and generation is worthless: at inference the future is not there to copy from.

## What else looks like this

- An autoencoder that sums its sequence up in one vector, or reads and writes with two recurrent layers: a remark only.
- Encoders, masked language models, prefix models and sequence autoencoders see the whole sequence by design; they do
  not predict the *next* token.
- Models that shift inside (most ready-made ones): what counts is the loss call, not the batch.
- Deterministic sequences (copying, counting, arithmetic) have no entropy: a loss near zero is right there.
- Memorising a small text: the validation loss stays high.

## What to do

Mask with `torch.triu(torch.ones(L, L), 1)` or `is_causal=True`; shift exactly once: `logits[:, :-1]` against
`tokens[:, 1:]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE013",
    needs={"fact:trial.future_leak | fact:loss.self_target_share | fact:loss.next_target_share": 1},
    says={
        "own-input": "{share:.0%} of the targets equal the input at the same position and the loss fell to "
        "{level:.2g}: the model "
        "copies its input",
        "own-causal": "{share:.0%} of the targets equal the input at the same position, which the model sees: there is nothing "
        "to predict",
        "own-target": "{share:.0%} of the targets equal the decoder's input at the same position: it sees the answer",
        "both-ways": "the model predicts the next token, but its recurrent layers read both ways: it sees the future",
        "twice": "{share:.0%} of the targets equal the input two positions later, not the next one: they were shifted twice",
        "unmasked": "the model predicts the next token, but none of its {calls} self-attention calls was masked: it "
        "sees the future",
        "open": "the model predicts the next token, but the masks of its {calls} self-attention calls leave later positions "
        "open ({how}): it sees the future",
        "future": "outputs depend on later inputs (gradient ratio {ratio:.2g})",
        "too-good": "next-token losses of {level:.2g} (train) and {val:.2g} (validation) nats are too good for natural data; "
        "the mask may leak",
    },
    fix={
        "own-input": "Shift once: predict tokens[:, 1:] from tokens[:, :-1].",
        "own-causal": "Shift once: predict tokens[:, 1:] from tokens[:, :-1].",
        "own-target": "Shift the decoder's input by one: feed the start token and y[:, :-1], and predict y.",
        "both-ways": "Use bidirectional=False, or two models that predict in one direction each.",
        "twice": "Shift once, in the data or where the loss is taken; ready-made language models shift the labels inside.",
        "unmasked": "Pass is_causal=True or a triangular mask to every self-attention layer.",
        "open": "Mask every later position: fill where torch.triu(torch.ones(T, T), 1) is 1.",
        "future": "Mask with triu(1), and check the axis the mask is applied to.",
        "too-good": "Run `traindx trial dependency train.py`: it measures whether outputs depend on later inputs.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("DATA007", "EVAL006", "LOSS010", "LOSS011"),
    at="mask",
)
def mask_or_shift_leak(
    run: Run,
    *,
    identity: float = 0.95,  # CATALOGUE
    low: float = 0.1,  # [def] share of ln C below which a loss counts as "nothing left to learn"
    ratio: float = 1e-6,  # as in WIRE009
) -> Iterator[Evidence]:
    where = facts.strings(run, "loss.site")
    measured = facts.number(facts.table(run, "trial.future_leak").get("ratio"), 0.0)
    if measured > ratio:
        yield Evidence(where=where, say="future", facts={"ratio": measured})
    level, chance = _level(run, "loss/train"), regime.chance_level(run)
    solved = chance is not None and level < low * chance
    share, following, second = (
        facts.number(run.fact(f"loss.{which}_target_share"), 0.0) for which in ("self", "next", "second")
    )
    if share >= identity and solved and not run.fact("loss.beside_source"):
        facts_ = {"share": share, "level": level}
        meant = _sums_up(run) and not _only_causal(run)
        severity, sure = (Severity.INFO, Confidence.SUGGESTIVE) if meant else (Severity.CRITICAL, Confidence.STRONG)
        yield Evidence(facts_, where, run.steps, "own-input", severity, sure)
    elif share >= identity and following < 0.5 and run.fact("loss.beside_source"):
        yield Evidence(where=where, steps=run.steps, say="own-target", confidence=Confidence.STRONG, facts={"share": share})
    elif share >= identity and following < 0.5 and _only_causal(run):
        yield Evidence(where=where, steps=run.steps, say="own-causal", confidence=Confidence.STRONG, facts={"share": share})
    if second >= identity and max(share, following) < 0.5:
        yield Evidence(where=where, steps=run.steps, say="twice", severity=Severity.WARNING, facts={"share": second})
    if following >= identity and not measured:
        yield from _next_token(run, where, level, solved)


def _sums_up(run: Run) -> bool:
    """Whether the model makes one vector of a sequence, or reads with one recurrent layer and writes with another: then to say
    what it was told may be the task (an autoencoder)."""
    recurrent = facts.counts(run.fact("model.recurrent"))
    return bool(run.fact("model.condensed")) or recurrent.get("all", 0) > 1


def _only_causal(run: Run) -> bool:
    masks = facts.counts(run.fact("model.attention_masks"))
    return bool(masks.get("causal")) and not any(masks.get(other) for other in ("none", "open", "masked"))


def _next_token(run: Run, where: tuple[str, ...], level: float, solved: bool) -> Iterator[Evidence]:
    recurrent = facts.counts(run.fact("model.recurrent"))
    if recurrent.get("both_ways") and recurrent["both_ways"] == recurrent.get("all") and not run.fact("loss.beside_source"):
        yield Evidence(where=where, steps=run.steps, say="both-ways", confidence=Confidence.STRONG)
        return
    masks = facts.counts(run.fact("model.attention_masks"))
    bare, open_ = int(masks.get("none", 0)), int(masks.get("open", 0))
    if open_ and not masks.get("causal") and not masks.get("masked"):
        ahead = masks.get("ahead", 0)
        how = (
            f"up to {ahead:.0f} ahead: its diagonal is off by {ahead:.0f}" if 0 < ahead <= 2 else "they shut out something else"
        )
        found = {"calls": open_ + bare, "how": how}
        yield Evidence(where=where, steps=run.steps, say="open", confidence=Confidence.STRONG, facts=found)
        return
    if bare and not masks.get("causal") and not masks.get("masked"):
        # An encoder next to a masked decoder is fine: then some calls are masked and this is not reached.
        yield Evidence(where=where, steps=run.steps, say="unmasked", confidence=Confidence.STRONG, facts={"calls": bare})
        return
    if not masks and not solved:
        raise Blind("predicts the next token; whether its attention is masked was not seen", "trial.future_leak")
    val = _level(run, "loss/val")
    if solved and val < 2 * max(level, 0.05):
        yield Evidence(
            where=where,
            steps=run.steps,
            say="too-good",
            severity=Severity.INFO,
            confidence=Confidence.SUGGESTIVE,
            facts={"level": level, "val": val},
        )


def _level(run: Run, name: str) -> float:
    """Median of the last tenth of a loss; infinite when there is none."""
    values = run.series(name).finite().values
    return float(np.median(values[-max(1, len(values) // 10) :])) if len(values) else math.inf
