"""The manual pages: one text for `traindx explain` and the site, with a picture and measured figures."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from click.testing import CliRunner

from each import each
from traindx import cause as causes
from traindx.cause import Cause
from traindx.cli.explain import command
from traindx.report import manual
from traindx.rule import catalogue

PICTURES = Path(__file__).parent.parent.parent / "docs" / "rules" / "pictures"
INDEX = json.loads((PICTURES / "index.json").read_text(encoding="utf-8"))
TOLD = {
    "GRAD001": {
        "found": 3,
        "sick": 4,
        "false_alarms": 1,
        "healthy": 300,
        "picture": {
            "case": "tower",
            "fault": "too deep",
            "severity": "warning",
            "step": 7,
            "said": "it vanishes",
            "alt": "a curve",
        },
    }
}


def test_the_site_shows_the_picture_and_the_terminal_says_where_it_is() -> None:
    rule = catalogue()["GRAD001"]
    site, terminal = manual.page(rule, TOLD, site=True), manual.page(rule, TOLD)
    assert "![a curve](pictures/grad001.svg)" in site
    assert "![" not in terminal and "pictures/" not in terminal  # a wheel has no pictures
    for text in (site, terminal):
        assert "too deep. Found from step 7: it vanishes." in text
        assert "found in 3 of 4 sick runs made for it; 1 false alarm on 300 healthy runs" in text
        assert rule.page in text


def test_a_condition_without_a_sick_run_of_its_own_still_tells_its_false_alarms() -> None:
    told = {"GRAD001": {"found": 0, "sick": 0, "false_alarms": 0, "healthy": 300}}
    assert "no false alarms on 300 healthy runs; no sick run was made for it alone" in manual.page(catalogue()["GRAD001"], told)
    assert "On the clinic" not in manual.page(catalogue()["GRAD001"], {})


def test_explain_prints_the_manual_page() -> None:
    done = CliRunner().invoke(command, ["wire004"], standalone_mode=False)
    assert done.exit_code == 0
    assert "false alarm" in done.output


@each(sorted(INDEX))
def test_a_picture_is_sound_and_says_what_it_shows(code: str) -> None:
    text = (PICTURES / f"{code.lower()}.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    about = INDEX[code]
    assert root.find("{http://www.w3.org/2000/svg}title").text == about["alt"]  # type: ignore[union-attr]
    assert about["case"] in about["alt"] and about["fault"] and about["said"]
    assert "prefers-color-scheme:dark" in text and "/" + "tmp/" not in text
    assert code in catalogue()


def test_pictures_are_all_listed_and_stay_small() -> None:
    files = sorted(PICTURES.glob("*.svg"))
    assert {p.stem.upper() for p in files} == set(INDEX)
    assert len(files) >= 90
    assert sum(p.stat().st_size for p in files) < 3_000_000


@each(causes.catalogue().values(), lambda c: c.name)
def test_the_page_of_a_cause_shows_no_template(cause: Cause) -> None:
    for page in (manual.cause_page(cause, site=site) for site in (False, True)):
        assert not re.search(r"\[\[|\]\]|[{}]|\bNone\b|…\.| ,|  ", page), page
        assert cause.title[1:] in page and "What to do: " in page
