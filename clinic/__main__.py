"""`python -m clinic`: check | generate | gaps | score | store | page | rates | seeds | eleven | logs | yard | wild | mutants | sixty."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from clinic import case as cases
from clinic import figures, patient, score


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m clinic", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="run written programs under plain Python and show their ends")
    check.add_argument("only", nargs="?", default="*")
    verbs.add_parser("generate", help="write the generated programs under clinic/work/")
    verbs.add_parser("gaps", help="which conditions have too few generated cases")
    scoring = verbs.add_parser("score", help="run the clinic under `traindx run` and print the figures")
    scoring.add_argument("--sample", type=int, help="a stratified part of this size")
    scoring.add_argument("--only", default="*", help="pattern on case name, group, condition or group/name")
    scoring.add_argument("--workers", type=int, default=2)
    scoring.add_argument("--fresh", action="store_true", help="train everything again")
    scoring.add_argument("--any-observer", action="store_true", help="judge kept records even if the probes changed since")
    scoring.add_argument("--kept", action="store_true", help="only cases whose record is kept: nothing is trained")
    scoring.add_argument("--healed", action="store_true", help="also the healed twins of the written cases")
    scoring.add_argument(
        "--fork", action="store_true", help="run cases in forks of a process that has torch loaded: half the time"
    )
    scoring.add_argument("--misses", type=Path, help="write what went wrong, case by case, to this file")
    scoring.add_argument("--name", help="write the result file clinic/results/NAME.json")
    scoring.add_argument(
        "--peer", help="score another tool instead: torchmortem, torch-audit, runmedic, training-doctor, trainpulse"
    )
    verbs.add_parser(
        "peers", help="compare all tools on the cases that every one of them was run on; writes clinic/results/peers.*"
    )
    paging = verbs.add_parser("page", help="the figures of everything judged so far, by whatever version")
    paging.add_argument("--misses", type=Path, help="write what went wrong, case by case, to this file")
    storing = verbs.add_parser("store", help="keep small recorded runs of cases under tests/data/runs/")
    storing.add_argument("only", nargs="*")
    verbs.add_parser("rates", help="count what rules say on the kept records of healthy runs, for the ranking of causes")
    seeding = verbs.add_parser("seeds", help="run sick cases with five seeds each and see whether the diagnoses agree")
    seeding.add_argument("only", nargs="*", help="names of written cases; without, the usual ten")
    seeding.add_argument("--count", type=int, default=5)
    seeding.add_argument("--write", action="store_true", help="keep the table as clinic/results/seeds.md")
    night = verbs.add_parser("eleven", help='investigate the eleven variants of "validation has not moved for two hours"')
    night.add_argument("only", nargs="*", help="names of variants; without, all")
    night.add_argument("--write", action="store_true", help="keep the table as clinic/results/eleven_pm.md")
    verbs.add_parser("logs", help="judge the kept records as plain logs, and keep the figures as clinic/results/logs.md")
    stick = verbs.add_parser("yard", help="judge the stored runs of clinic/yard/ and show what changed since they were kept")
    stick.add_argument("--only", default="*", help="pattern on names of cases")
    stick.add_argument("--strict", action="store_true", help="exit 1 when something was lost or a healthy run is alarmed anew")
    ward = verbs.add_parser("wild", help="real programs that nobody here wrote, bare and observed")
    ward.add_argument("--only", default="*", help="pattern on name or kind")
    ward.add_argument("--sample", type=int, help="so many programs, every kind in turn")
    ward.add_argument("--sources", type=Path, default=Path("wild-sources"), help="folder of checkouts, OWNER+NAME each")
    ward.add_argument("--packages", action="store_true", help="only the programs on packages, which need no checkout")
    ward.add_argument("--limit", type=float, default=240.0, help="seconds by the clock for one process")
    ward.add_argument("--bare", action="store_true", help="show that programs run, both halves; nothing is observed")
    ward.add_argument("--fresh", action="store_true", help="run everything again")
    ward.add_argument("--final", default="", metavar="WHY", help="the sealed half instead; the use is logged")
    ward.add_argument("--write", action="store_true", help="keep the figures as clinic/results/wild.*")
    faults = verbs.add_parser("mutants", help="the ward's programs with one fault each, observed")
    faults.add_argument("--only", default="*", help="pattern on names or kinds of programs")
    faults.add_argument("--operator", default="", help="one fault")
    faults.add_argument("--sample", type=int, help="so many mutants, every operator in turn")
    faults.add_argument("--sources", type=Path, default=Path("wild-sources"), help="folder of checkouts, OWNER+NAME each")
    faults.add_argument("--packages", action="store_true", help="only of programs on packages")
    faults.add_argument("--limit", type=float, default=120.0, help="seconds by the clock for one process")
    faults.add_argument("--harm", action="store_true", help="measure the mutant over three seeds, too, not the original alone")
    faults.add_argument("--list", action="store_true", help="count the mutants and run none")
    faults.add_argument("--fresh", action="store_true", help="run everything again")
    faults.add_argument("--final", default="", metavar="WHY", help="the mutants set aside instead; the use is logged")
    faults.add_argument("--write", action="store_true", help="keep the figures as clinic/results/mutants.md")
    paging = verbs.add_parser("sixty", help="sixty pages to judge by eye: sick, healthy, two faults, logs")
    paging.add_argument("folder", type=Path)
    paging.add_argument("--logs", type=Path, help="folder of logs with INDEX.jsonl and LABELS.jsonl; without it forty pages")
    paging.add_argument("--seed", type=int, default=1)
    paging.add_argument("--only", default="", help="the beginning of a page's name: sick, healthy, two, log")
    args = parser.parse_args(argv)
    return globals()[f"_{args.verb}"](args)


def _check(args: argparse.Namespace) -> int:
    bad = 0
    for c in score.choose(list(cases.written()), score.Ask(only=args.only)):
        texts = [(c.name, c.text, c.exit_code)] + ([(f"{c.name}__healed", cases.heal(c), 0)] if c.healed else [])
        for name, text, expected in texts:
            ran = patient.plain(text, c.name)
            bad += ran["exit"] != expected
            tail = ran["stdout"].strip().splitlines()
            print(f"{name:48s} exit {ran['exit']} cpu {ran['cpu_s']:5.1f} s")
            print("\n".join(f"    {row}" for row in [*tail[:1], *tail[len(tail) // 2 : len(tail) // 2 + 1], *tail[-2:]]))
    return int(bad > 0)


def _generate(args: argparse.Namespace) -> int:
    from clinic.generate import generated

    made = list(generated())
    for group in ("generated", "below", "control"):
        print(f"{group}: {sum(c.group == group for c in made)}")
    return 0


def _gaps(args: argparse.Namespace) -> int:
    from clinic import gaps

    print(gaps.page())
    return 0


def _score(args: argparse.Namespace) -> int:
    ask = score.Ask(args.only, args.sample, args.workers, args.fresh, args.any_observer, args.healed, args.fork, args.kept)
    if args.peer:
        from clinic import peers

        print(json.dumps(peers.run(args.peer, ask), indent=1))
        return 0
    lines = score.run(ask)
    print(figures.page(figures.summary(lines)))
    if args.misses:
        args.misses.write_text(score.misses(lines), encoding="utf-8")
    if args.name:
        print(f"written: {score.write(lines, args.name)}", file=sys.stderr)
    return 0


def _sixty(args: argparse.Namespace) -> int:
    from clinic import sixty

    return sixty.main(args.folder, args.logs, args.seed, args.only)


def _peers(args: argparse.Namespace) -> int:
    from clinic import peers

    print(peers.page(peers.compare()))
    return 0


def _page(args: argparse.Namespace) -> int:
    lines = score.latest()
    print(figures.page(figures.summary(lines)))
    if args.misses:
        args.misses.write_text(score.misses(lines), encoding="utf-8")
    return 0


def _store(args: argparse.Namespace) -> int:
    from clinic import store

    return store.main(args.only)


def _rates(args: argparse.Namespace) -> int:
    from clinic import rates

    counted = rates.measured(score.all_cases())
    print(f"written: {rates.write(counted)}, over {counted['runs']} healthy runs", file=sys.stderr)
    return 0


def _seeds(args: argparse.Namespace) -> int:
    from clinic import seeds

    wanted = args.only or seeds.USUAL
    table = seeds.measure([c for c in cases.written() if c.name in wanted], args.count)
    print(seeds.page(table))
    if args.write:
        (score.RESULTS / "seeds.md").write_text(seeds.page(table), encoding="utf-8")
    return int(not all(row["agrees"] for row in table))


def _eleven(args: argparse.Namespace) -> int:
    from clinic import eleven

    rows = []
    for c in cases.written("eleven_pm"):
        if not args.only or c.name in args.only:
            rows.append(eleven.look_into(c))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(eleven.page(rows))
    if args.write:
        (score.RESULTS / "eleven_pm.md").write_text(eleven.page(rows), encoding="utf-8")
    return int(not all(r["right"] for r in rows))


def _yard(args: argparse.Namespace) -> int:
    from clinic import yard

    before, now = yard.baseline(), yard.look(only=args.only)
    print(yard.page(before, now))
    changed = yard.compare(before, now)
    return int(args.strict and bool(changed["found lost"] or changed["alarms gained"]))


def _mutants(args: argparse.Namespace) -> int:
    from clinic.wild import mutants, ward

    ask = ward.Ask(args.only, args.sample, args.final, args.sources, args.limit, False, args.fresh, args.packages)
    if args.list:
        found = [w for p in ward.choose(ward.programs(), args.only) for w in mutants._safely(p, ask)]
        aside = sum(mutants.sealed(w.program, w.mutant.operator) for w in found)
        print(f"{len(found) - aside} mutants for development, {aside} set aside")
        return 0
    told = mutants.page(mutants.run(ask, args.operator, harm=args.harm))
    print(told)
    if args.write:
        (score.RESULTS / ("mutants-sealed.md" if args.final else "mutants.md")).write_text(told, encoding="utf-8")
    return 0


def _wild(args: argparse.Namespace) -> int:
    from clinic.wild import ward

    ask = ward.Ask(args.only, args.sample, args.final, args.sources, args.limit, args.bare, args.fresh, args.packages)
    try:
        lines = ward.run(ask)
    except ward.Sealed as why:
        print(why, file=sys.stderr)
        return 2
    if not args.bare:
        print(ward.page(lines))
    if args.write:
        ward.write(lines, "wild-sealed" if args.final else "wild")
    return int(any("error" in x for x in lines))


def _logs(args: argparse.Namespace) -> int:
    from clinic import logs

    told = logs.page(logs.lines(cases.written()))
    print(told)
    (score.RESULTS / "logs.md").write_text(told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
