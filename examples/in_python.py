"""Everything the command line does with runs, in Python. It writes two small logs and works on them; no torch is needed.

python examples/in_python.py FOLDER
"""

import json
import sys
from pathlib import Path

import traindx

home = Path(sys.argv[1] if len(sys.argv) > 1 else "in-python")

# two runs, as any training script might log them: one learns, one stays at the level of guessing among ten classes
for name, rate in (("slow", 0.01), ("hot", 10.0)):
    rows = [(i, 2.3 * 0.93**i if rate < 1 else 2.3 + 0.01 * (i % 3), 1 - 0.9 * 0.93**i if rate < 1 else 0.1) for i in range(60)]
    (home / name).mkdir(parents=True, exist_ok=True)
    log = "epoch,train_loss,val_acc\n" + "".join(f"{i},{loss:.4f},{acc:.4f}\n" for i, loss, acc in rows)
    (home / name / "log.csv").write_text(log)
    (home / name / "config.json").write_text(json.dumps({"lr": rate}))

# one run: a path, a list of losses, a dict of lists, a data frame, a Trainer or `@last`
diagnosis = traindx.diagnose(home / "slow")
print(diagnosis.verdict)  # print(diagnosis) shows the page; so does a notebook
print(traindx.diagnose([2.3 * 0.97**i for i in range(200)]).verdict)

# a folder of runs, what two runs differ in, and one run's numbers, charts and page
sweep = traindx.sweep(home, by="val_acc")
print(sweep)
print(traindx.compare(home / "slow", home / "hot").outcome)
run = traindx.runs(home / "slow")[0]
print(len(run.frame()))  # a frame of pandas or polars where installed, else a dict of columns
charts = run.plot("loss/train")  # shown in a notebook; text elsewhere
print(charts)
print(run.report(home / "report.html"))
(home / "run.csv").unlink(missing_ok=True)
print(run.export(home / "run.csv"))  # or to="parquet", to="tensorboard"

# settings, and what a team requires of a run
print(traindx.diagnose(home / "hot", settings=traindx.Settings(ignore=("LOSS", "EVAL"))).verdict)
traindx.testing.assert_healthy(home / "slow", require="val_acc >= 0.9")
