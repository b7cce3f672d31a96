"""Generated cases: base programs × fault operators × level × seed, each a real file one can open and run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clinic.case import HERE, WORK, Case
from clinic.operators import OPERATORS
from clinic.surgery import Level, Operator, reseed

SEEDS = range(18)  # of every base: the healthy controls
BASES = tuple(sorted(p.stem for p in (HERE / "bases").glob("*.py")))


def generated() -> Iterator[Case]:
    """Every generated case; the programs are written under clinic/work/ as needed."""
    for base in BASES:
        text = (HERE / "bases" / f"{base}.py").read_text(encoding="utf-8")
        for seed in SEEDS:
            yield _case(base, f"{base}__seed{seed:02d}", reseed(text, seed), "healthy", "control", seed=seed)
        for operator in OPERATORS:
            for at, level in enumerate(operator.levels):
                if (patched := operator.apply(base, reseed(text, 100 + at), level)) is not None:
                    yield _faulty(base, operator, level, patched, 100 + at)


def _faulty(base: str, operator: Operator, level: Level, text: str, seed: int) -> Case:
    group = "below" if level.quiet else "generated"
    return _case(
        base,
        f"{base}__{operator.name}__{level.name}",
        text,
        "healthy" if level.quiet else "sick",
        group,
        fault=operator.fault,
        condition=operator.condition,
        codes=operator.codes,
        causes=operator.causes,
        verdicts=operator.verdicts,
        least=level.least,
        quiet=operator.codes if level.quiet else (),
        operator=operator.name,
        level=level.name,
        exit_code=operator.exit_code,
        seed=seed,
    )


def _case(base: str, name: str, text: str, kind: str, group: str, **truth: object) -> Case:
    path = WORK / group / f"{name}.py"
    _write(path, text)
    return Case(name, path, kind, group, base=base, **truth)  # type: ignore[arg-type]


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
