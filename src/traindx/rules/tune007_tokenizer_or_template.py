"""Token ids do not fit the model's vocabulary, or the text is tokenised in another way than the model was trained with.

## What it sees

The ids of the inputs against the rows of the embedding: an id beyond the last row, more than 1 % unknown tokens, a
beginning-of-text token twice at the start of sequences.

## Why it matters

An id beyond the table crashes (late and unclearly on a GPU). Unknown tokens and doubled marks are quiet: the model reads
something it has never seen, and answers worse for no visible reason.

## What else looks like this

- New tokens that were added on purpose: resize the embedding, and the ids fit.
- TUNE008: the vocabulary fits, the weights are missing.

## What to do

Use the tokenizer and the chat template that belong to the model; after adding tokens call `resize_token_embeddings` and
give new rows the mean of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE007",
    needs={"fact:data.token": 1},
    says={
        "range": "token id {max_id:.0f} is beyond the embedding's {rows:.0f} rows ({where})",
        "unknown": "{share:.1%} of the tokens are unknown to the tokenizer",
        "double": "sequences begin with the beginning-of-text token twice",
    },
    fix={
        "range": "Use the model's own tokenizer, or resize the embedding to at least {needed:.0f} rows.",
        "unknown": "Use the tokenizer that belongs to the model; check the encoding of the text.",
        "double": "Let either the template or the tokenizer add the token: add_special_tokens=False after a chat template.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def tokenizer_or_template(run: Run, *, unknown: float = 0.01) -> Iterator[Evidence]:  # CATALOGUE TUNE007
    token = facts.table(run, "data.token")
    shapes = facts.table(run, "model.param_shapes")
    names = facts.strings(run, "model.embeddings")
    tables = {n: facts.number(shapes[n][0]) for n in names if isinstance(shapes.get(n), list | tuple) and shapes[n]}
    name = max(tables, key=lambda n: tables[n]) if tables else "embedding"
    rows = tables.get(name, facts.number(token.get("vocab")))
    top = facts.number(token.get("max_id"))
    if top >= rows:
        yield Evidence({"max_id": top, "rows": rows, "needed": top + 1}, (name,), None, "range", Severity.CRITICAL)
    share = facts.number(token.get("unk_share"), 0.0)
    if share > unknown:
        yield Evidence({"share": share}, ("inputs",), None, "unknown")
    if token.get("double_bos"):
        yield Evidence({}, ("inputs",), None, "double")
