"""What the tables share: verdicts, groups of bases, and the codes of a run that blew up."""

from __future__ import annotations

from typing import Any

from clinic.surgery import Level

RESTART = ("restart", "fix-and-resume")
FIX = ("fix-and-resume", "restart")
EVALUATION = ("fix-evaluation",)
NOTED = ("healthy", "wait", "fix-and-resume", "restart", "cannot-tell")  # a remark, whatever the verdict of the run
TABLES = ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "spirals_residual", "gru_walks")
CLASSES = ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual", "encoder_padded")
BLOWN = ("LOSS001", "NUMR001", "NUMR002", "NUMR003", "GRAD002", "ACTV005", "ACTV001", "LOSS002", "LOSS005", "LOSS011")


def quiet(name: str, value: Any = None) -> Level:
    return Level(name, value, quiet=True)
