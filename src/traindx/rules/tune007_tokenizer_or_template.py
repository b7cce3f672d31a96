"""Token ids do not fit the model's vocabulary, or the text is tokenised in another way than the model was trained with.

## What it sees

The ids of the inputs against the rows of the embedding: an id beyond the last row, more than 1 % unknown tokens, a
beginning-of-text token twice at the start of sequences. Where the model does not say which id is the unknown token: one id
that makes up more than half of the tokens inside sequences, of a vocabulary of 50 or more.

## Why it matters

An id beyond the table crashes (late and unclearly on a GPU). Unknown tokens and doubled marks are quiet: the model reads
something it has never seen, and answers worse for no visible reason.

## What else looks like this

- New tokens that were added on purpose: resize the embedding, and the ids fit.
- Sparse events, silence, blanks: one id is the rule there. A remark, unless the model predicts its own text.
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
        "one-id": "one id makes up {share:.0%} of all tokens: text that a vocabulary does not know looks like this",
        "double": "sequences begin with the beginning-of-text token twice",
    },
    fix={
        "range": "Use the model's own tokenizer, or resize the embedding to at least {needed:.0f} rows.",
        "unknown": "Use the tokenizer that belongs to the model; check the encoding of the text.",
        "one-id": "Look at a decoded batch; build the vocabulary from the text that is trained on.",
        "double": "Let either the template or the tokenizer add the token: add_special_tokens=False after a chat template.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def tokenizer_or_template(
    run: Run,
    *,
    unknown: float = 0.01,  # CATALOGUE TUNE007
    one_id: float = 0.5,  # [def] blanks make up a fifth of prose and two fifths of indented code
    vocabulary: int = 50,  # ids below which one may well be the rule (bits, events, silence)
) -> Iterator[Evidence]:
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
    elif (top := facts.number(token.get("top_share"), 0.0)) > one_id and facts.number(token.get("vocab"), 0.0) >= vocabulary:
        # Text is told from sparse events by the task: it is predicted from itself.
        text = facts.number(run.fact("loss.next_target_share"), 0.0) >= 0.9
        severity = Severity.WARNING if text else Severity.INFO
        yield Evidence({"share": top}, ("inputs",), None, "one-id", severity, Confidence.STRONG)
    if token.get("double_bos"):
        yield Evidence({}, ("inputs",), None, "double")
