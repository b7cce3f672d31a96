"""What people see, and the programs of the clinic that show it: the tables of five guides to debugging a training, row by row.

A written case names the rows it stands for in its `covers`; the page is generated (`tools/pages.py`).
"""

from __future__ import annotations

from clinic.case import written

TABLES: dict[str, dict[str, str]] = {
    "The first look": {
        "000:symptom-1": "the loss explodes or is NaN at once",
        "000:symptom-2": "the loss is NaN after a while",
        "000:symptom-3": "the loss has not moved since the first step",
        "000:symptom-4": "the loss fell, then stopped moving",
        "000:symptom-5": "the loss swings all the time",
        "000:symptom-6": "training is fine, validation gets worse",
        "000:symptom-7": "both losses are high, and equal",
        "000:symptom-8": "the validation loss is good, the metric is not",
    },
    "Where a NaN comes from": {
        "000:nan-1": "the logarithm of zero",
        "000:nan-2": "a division by zero",
        "000:nan-3": "the square root at zero, in the backward pass",
        "000:nan-4": "an exponential that overflows",
        "000:nan-5": "half precision that overflows",
        "000:nan-6": "gradients that explode",
        "000:nan-7": "NaN in the data",
        "000:nan-8": "a tensor changed in place under autograd",
    },
    "Shapes of the loss": {
        "000:curve-1": "as it should be",
        "000:curve-2": "it climbs",
        "000:curve-3": "it is flat",
        "000:curve-4": "it oscillates",
        "000:curve-5": "training and validation part",
        "000:curve-6": "both stay high",
    },
    "Loss and accuracy": {
        "000:loss-accuracy-1": "the loss falls, the accuracy does not move",
        "000:loss-accuracy-2": "the loss does not move, the accuracy rises",
        "000:loss-accuracy-3": "the loss rises, the accuracy holds or rises",
        "000:loss-accuracy-4": "both jump",
    },
    "Patterns of a curve": {
        "001:spikes": "spikes",
        "001:flatline": "it flattens too early",
        "001:val-flat": "training learns, validation does not",
        "001:both-flat": "neither learns",
    },
    "Vital signs": {
        "002:training-loss": "the training loss",
        "002:gradient-norm": "the gradient norm",
        "002:weight-norm": "the weight norm",
        "002:learning-rate": "the learning rate",
        "002:batch-loss-variance": "the spread of the loss from batch to batch",
    },
    "Triage": {
        "003:triage-1": "the training loss is flat",
        "003:triage-2": "the training loss falls, the validation loss rises",
        "003:triage-3": "both are poor",
        "003:triage-4": "the loss is suddenly NaN or infinite",
        "003:triage-5": "the accuracy is high, and the model fails in use",
        "003:triage-6": "the machine is busy, and little gets done",
        "003:validation-1": "perfect on the training set, much worse on validation",
        "003:validation-2": "validation jumps wildly",
        "003:validation-3": "validation is better than training",
    },
    "From paper to code": {
        "004:nan-step-1": "NaN at the first step",
        "004:nan-after-n": "NaN after many steps",
        "004:wont-decrease": "the loss will not go down",
        "004:val-awful": "training is good, validation is awful",
    },
}  # fmt: skip


def rows() -> list[str]:
    """Every row that must have a case."""
    return [row for table in TABLES.values() for row in table]


def page() -> str:
    """Which program shows which symptom, and what is found in it."""
    cases = list(written())
    out = [
        "# What you see, and what it was",
        "",
        "The same picture has many causes. For every symptom of the usual checklists the clinic has at least one program that",
        "shows it (`clinic/cases/sick/NAME.py`, `healthy/` or `eleven_pm/`); each can be run as it is, with the truth beside it.",
        "",
    ]
    for title, table in TABLES.items():
        out += [
            f"## {title}",
            "",
            "| you see | a program that shows it | what is wrong with it | found as |",
            "|---|---|---|---|",
        ]
        for row, seen in table.items():
            for n, case in enumerate(c for c in cases if row in c.covers):
                codes = (
                    ", ".join(f"[{c}](rules/{c.lower()}.md)" for c in case.codes[:2])
                    if case.kind == "sick"
                    else "nothing: it is healthy"
                )
                out.append(f"| {seen if n == 0 else ''} | `{case.group}/{case.name}` | {_cell(case.fault)} | {codes} |")
        out.append("")
    return "\n".join(out)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
