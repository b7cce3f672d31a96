"""The check of what users read: it finds what the voice page forbids, and its debt only shrinks."""

from __future__ import annotations

import pytest
from tools import voice

# Lower this number when files are rewritten; never raise it.
MOST_DEBT = 6


def faults_in(text: str, path: str = "src/traindx/x.py") -> list[str]:
    return list(voice.faults(voice.Text(path, 1, text)))


@pytest.mark.parametrize(
    "said",
    [
        "Fix it before it is mended again",
        "the loss jumped 2 time(s)",
        "Apart from that: something",
        "the optimizer is made anew",
        "What would change our mind: a second run",
    ],
)
def test_forbidden_phrases_are_found(said: str) -> None:
    assert faults_in(said)


@pytest.mark.parametrize("said", ["the loss jumped 2 times", "recommended settings", "f(s) is smooth", "details are missing"])
def test_plain_words_pass(said: str) -> None:
    assert faults_in(said) == []


def test_a_long_sentence_is_found_and_two_short_ones_are_not() -> None:
    long = " ".join(["word"] * 31)
    assert faults_in(long)
    assert faults_in("a " * 15 + "word. " + "a " * 15 + "word.") == []


def test_a_number_whose_name_has_a_unit_must_be_followed_by_it() -> None:
    assert faults_in("waits for {wait_ms:.3g} in each step")
    assert faults_in("waits {wait_ms:.3g} of {step_ms:.3g} ms") == []


def test_templates_are_found_in_pages_and_not_in_their_code() -> None:
    page = "Restart[[ with {rate}]]\n\n```python\nf'{rate}'\n```\n\nUse `{rate}`.\n"
    found = [f for t in voice.of_markdown("docs/x.md", page) for f in voice.faults(t)]
    assert [f.split()[0] for f in found] == ["'[['", "'{rate}'", "']]'"]


def test_strings_are_read_and_comments_and_patterns_are_not() -> None:
    source = (
        '"""Inner docstring is mended."""\nimport re\n# it is mended\nx = f"it is mended {x}"\ny = re.compile("it is mended")\n'
    )
    assert [(t.line, t.text) for t in voice.of_python("src/traindx/x.py", source)] == [(4, "it is mended {x}")]
    assert len(list(voice.of_python("src/traindx/rules/x.py", source))) == 2


def test_pages_and_scripts_of_the_dashboard_are_read() -> None:
    script = '// "Not this one"\nel("p", {}, "A moment, please.");\n'
    assert [t.text for t in voice.of_page("x.js", script)] == ["A moment, please."]
    assert [t.text for t in voice.of_page("x.html", "<p>All your runs</p>")] == ["All your runs"]


def test_a_file_may_keep_its_debt_but_not_raise_it() -> None:
    assert voice.overdue({"a": ["a:1: x"]}, {"a": 1}) == []
    assert voice.overdue({"a": ["a:1: x", "a:2: y"]}, {"a": 1}) == ["a:1: x", "a:2: y"]
    assert voice.overdue({"b": ["b:1: x"]}, {}) == ["b:1: x"]
    assert voice.overdue({}, {"a": 1}) == ["a has no faults left: remove it from tools/voice_debt.txt"]


def test_the_debt_only_shrinks() -> None:
    assert sum(voice.debts().values()) <= MOST_DEBT
    assert voice.overdue(voice.found(), voice.debts()) == []
