"""The tokenizer does not fit the model: token ids do not fit the vocabulary, or the text is not tokenised as in pretraining.

## What it sees

The ids of the inputs against the rows of the embedding: an id beyond the last row, more than 1 % unknown tokens, a
beginning-of-text token twice at the start of sequences. Which ids these are is taken from the model's config, a
tokenizer, a table of words or a named constant; a doubled beginning is seen without, too. Where nothing says which id
is the unknown token: one id that makes up more than half of the tokens inside sequences, of a vocabulary of 50 or more.
Rows at the end of a frozen embedding that are in use and three times as large (or small) as all others: these tokens
were added and stay random.

## Why it matters

An id beyond the table crashes (late and unclearly on a GPU). Unknown tokens and doubled marks are quiet: the model reads
something it has never seen, and answers worse for no visible reason.

## What else looks like this

- New tokens that were added on purpose: resize the embedding, and the ids fit.
- A vocabulary of the most frequent words, trained from scratch: a tenth of unknown words is usual there, and up to a quarter a
  remark.
- Two marks in front of every sequence of a model trained from scratch (contexts of a fixed length): a remark.
- Sparse events, silence, blanks: one id is the rule there. A remark, unless the model predicts its own text.
- TUNE008: the vocabulary fits, the weights are missing.

## What to do

Use the tokenizer and the chat template that belong to the model; after adding tokens call `resize_token_embeddings` and
give new rows the mean of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE007",
    needs={"fact:data.token | fact:data.id_beyond": 1},
    says={
        "range": "token id {max_id:.0f} is beyond the embedding's {rows:.0f} rows ({where})",
        "long": "a sequence of at least {needed:.0f} positions is longer than the {rows:.0f} that {where} has",
        "negative": "token id {max_id:.0f} is below zero, and an embedding has no such row ({where})",
        "unknown": "{share:.1%} of the tokens are unknown to the tokenizer",
        "one-id": "one id makes up {share:.0%} of all tokens: the vocabulary may not fit the text",
        "added": "the last {count} rows of {where} (ids {ids}) differ in size from all others by a factor of {ratio:.0f}, "
        "and the table is frozen: these tokens were added and are never trained",
        "double": "sequences begin with the beginning-of-text token twice",
    },
    fix={
        "range": "Use the model's own tokenizer, or resize the embedding to at least {needed:.0f} rows.",
        "long": "Cut or split the sequences to {rows:.0f} tokens, or give the model more positions.",
        "negative": "Ids below zero mark labels to ignore (-100): pad inputs with the padding id, and only labels with -100.",
        "unknown": "Use the tokenizer that belongs to the model; check the encoding of the text.",
        "one-id": "Look at a decoded batch; build the vocabulary from the text that is trained on.",
        "added": "Give added rows the mean of the old ones, and train them: let the embedding (and a tied head) require "
        "gradients.",
        "double": "Let either the template or the tokenizer add the token: add_special_tokens=False after a chat template.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    at="loader",
)
def tokenizer_or_template(
    run: Run,
    *,
    unknown: float = 0.01,  # CATALOGUE TUNE007, of a model that was trained with this tokenizer
    own_words: float = 0.25,  # [def] unknown words of a vocabulary that the script made itself
    one_id: float = 0.5,  # [def] blanks make up a fifth of prose and two fifths of indented code
    vocabulary: int = 50,  # ids below which one may well be the rule (bits, events, silence)
) -> Iterator[Evidence]:
    fatal = facts.table(run, "data.id_beyond")
    if fatal:
        wrong, rows = facts.number(fatal.get("id")), facts.number(fatal.get("rows"))
        values = {"max_id": wrong, "rows": rows, "needed": wrong + 1}
        say = "long" if fatal.get("positions") else "range" if wrong >= 0 else "negative"
        yield Evidence(values, (str(fatal.get("name")),), run.steps, say, Severity.CRITICAL)
        return
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
    tuned = regime.finetune(run)
    if share > unknown:
        yield Evidence(
            {"share": share}, ("inputs",), None, "unknown", Severity.WARNING if tuned or share > own_words else Severity.INFO
        )
    elif (top := facts.number(token.get("top_share"), 0.0)) > one_id and facts.number(token.get("vocab"), 0.0) >= vocabulary:
        # Text is told from sparse events by the task: it is predicted from itself.
        text = facts.number(run.fact("loss.next_target_share"), 0.0) >= 0.9
        severity = Severity.WARNING if text else Severity.INFO
        yield Evidence({"share": top}, ("inputs",), None, "one-id", severity, Confidence.STRONG)
    added = token.get("added")
    if isinstance(added, dict):
        ids = [str(i) for i in added.get("ids") or ()]
        shown = {"count": len(ids), "ids": ", ".join(ids[:4]), "ratio": facts.number(added.get("ratio"))}
        yield Evidence(shown, (str(added.get("name")),), None, "added")
    if token.get("double_bos"):
        yield Evidence({}, ("inputs",), None, "double", Severity.WARNING if tuned else Severity.INFO)
