"""`--profile sagemaker`: the rule names of SageMaker Debugger, their documented defaults, and what stands for them here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traindx.diagnosis import Diagnosis
from traindx.settings import Settings


@dataclass(frozen=True)
class Namesake:
    """A rule of another tool: its documented defaults, our conditions for it, and the limits that mean the same in both."""

    name: str
    defaults: str
    codes: tuple[str, ...]
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""


SAGEMAKER: tuple[Namesake, ...] = (
    Namesake(
        "DeadRelu",
        "threshold_inactivity 1.0 %, threshold_layer 50 %",
        ("ACTV001",),
        {"ACTV001": {"most": 0.5}},
        "a unit must be silent over at least 1000 samples, not in one step",
    ),
    Namesake(
        "ExplodingTensor",
        "only_nan False",
        ("NUMR001", "NUMR002", "NUMR003", "GRAD002"),
        {},
        "names the first bad operation and its source line",
    ),
    Namesake(
        "PoorWeightInitialization", "threshold 10.0, distribution_range 0.001, patience 5", ("WGHT004", "WGHT005", "LOSS010")
    ),
    Namesake(
        "SaturatedActivation",
        "threshold_tanh ±9.4999, sigmoid −23 … 16.99999, threshold_layer 50 %",
        ("ACTV003",),
        {"ACTV003": {"most": 0.5}},
    ),
    Namesake(
        "VanishingGradient",
        "threshold 1e-7",
        ("GRAD001",),
        {},
        "judged against the other layers: 1e-7 depends on the loss's scale",
    ),
    Namesake(
        "WeightUpdateRatio",
        "large_threshold 10.0, small_threshold 1e-8",
        ("OPTM001", "OPTM002"),
        {"OPTM001": {"tiny": 1e-8}},
        "the upper limit here is far below 10: weights that move by their own size each step have lost what they learned",
    ),
    Namesake("AllZero", "threshold 100 %", ("GRAD004", "WIRE016", "ACTV001", "ACTV005")),
    Namesake(
        "ClassImbalance",
        "threshold_imbalance 10, threshold_misprediction 0.7, samples 500",
        ("DATA011", "EVAL004"),
        {"DATA011": {"ratio": 10.0, "least_labels": 500}, "EVAL004": {"recall": 0.3}},
    ),
    Namesake(
        "Confusion",
        "min_diag 0.9, max_off_diag 0.1",
        ("EVAL004",),
        {},
        "recall per class; a diagonal below 0.9 alone is no fault",
    ),
    Namesake(
        "LossNotDecreasing",
        "num_steps 10, diff_percent 0",
        ("LOSS002", "LOSS003", "LOSS011"),
        {},
        "noise-aware: ten raw losses decide nothing",
    ),
    Namesake("Overfit", "patience 1, ratio_threshold 0.1", ("LOSS008",), {"LOSS008": {"gap": 0.1}}),
    Namesake("Overtraining", "patience_train 5, patience_validation 10, delta 0.1", ("LOSS008", "LOSS003")),
    Namesake("SimilarAcrossRuns", "–", (), {}, "`traindx compare A B`"),
    Namesake("StalledTrainingRule", "threshold 1800 s", ("DIST005",), {}, "`traindx top` shows a run that writes no more"),
    Namesake("TensorVariance", "min_threshold, max_threshold: none", ("ACTV004", "WGHT001", "WGHT002")),
    Namesake("UnchangedTensor", "num_steps 3, rtol 1e-5, atol 1e-8", ("WIRE001", "WIRE002", "GRAD004", "NUMR007", "EVAL001")),
    Namesake(
        "CheckInputImages",
        "threshold_mean 0.2, threshold_samples 500",
        ("DATA002",),
        {"DATA002": {"least_samples": 500}},
        "a mean off zero alone is no fault; it is judged against the spread",
    ),
    Namesake("NLPSequenceRatio", "token_thresholds_percent 50", ("PERF009",), {"PERF009": {"most": 0.5}}),
    Namesake("FeatureImportanceOverweight", "threshold 0.8, nfeatures 3", (), {}, "XGBoost only"),
    Namesake("TreeDepth", "depth 4", (), {}, "XGBoost only"),
    Namesake("BatchSize", "profiler", ("PERF005",)),
    Namesake("CPUBottleneck", "profiler", ("PERF001", "PERF004")),
    Namesake("Dataloader", "profiler", ("PERF001",)),
    Namesake("GPUMemoryIncrease", "profiler", ("PERF002", "PERF003")),
    Namesake("IOBottleneck", "profiler", ("PERF001",)),
    Namesake("LoadBalancing", "profiler", ("DIST004",)),
    Namesake("LowGPUUtilization", "profiler", ("PERF005", "PERF004")),
    Namesake("MaxInitializationTime", "profiler", ("PERF008",)),
    Namesake("StepOutlier", "profiler, 3 standard deviations", ("PERF007", "PERF006")),
)
PROFILES = {"sagemaker": SAGEMAKER}


def applied(settings: Settings, profile: str) -> Settings:
    """The settings under a profile: its conditions are selected, its names work as codes; the user's own limits win."""
    rows = PROFILES[profile]
    named = {row.name.upper(): row.codes for row in rows}
    select = _translated(settings.select, named) or tuple(dict.fromkeys(code for row in rows for code in row.codes))
    limits: dict[str, dict[str, Any]] = {}
    for row in rows:
        for code, own in row.limits.items():
            limits.setdefault(code, {}).update(own)
    for code, own in settings.rules.items():
        limits.setdefault(code, {}).update(own)
    return dataclasses.replace(settings, select=select, ignore=_translated(settings.ignore, named), rules=limits)


def _translated(codes: Sequence[str], named: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(own for code in codes for own in named.get(code, (code,))))


def summary(diagnoses: Sequence[Diagnosis], profile: str) -> str:
    """Which of the profile's rules would have fired, and as what they are reported here."""
    found = {f.code for d in diagnoses for f in d.findings}
    fired = [
        f"{row.name} ({', '.join(c for c in row.codes if c in found)})" for row in PROFILES[profile] if found & set(row.codes)
    ]
    return f"traindx: {profile} names: {', '.join(fired) if fired else 'no rule fired'}\n"
