"""Which reference and which examples hold each of the 62 items; `test_contract` walks the list and leaves none out.

A listing is held by examples that compute the lesson's figure beside ours. A table, checklist or question is held by programs
with the truth beside them (their rows in `clinic`), by curves of known shape, or by tests of the suites that own the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

KIT, WATCH, BREAKS = "tests/kit/test_kit.py", "tests/lessons/test_watching.py", "tests/lessons/test_breaks.py"
EXPLORE, BROWSER = "tests/dashboard/test_explorers.py", "tests/dashboard/test_dashboard_in_a_browser.py"
VERDICTS, FAULTS, HERE = "tests/trials/test_verdicts.py", "tests/forensics/test_healthy.py", "tests/lessons/test_items.py"


@dataclass(frozen=True)
class Held:
    """What holds one item: our reference, examples by name, rows of the clinic, shapes of curves, tests elsewhere."""

    reference: str  # a function of `references`, or what the truth is
    examples: tuple[str, ...] = ()  # of `examples.EXAMPLES`
    rows: str = ""  # beginnings of the rows that programs cover
    shapes: tuple[str, ...] = ()  # of `curves.SHAPES`
    tests: tuple[str, ...] = ()


NETS = ("healthy net", "vanishing net", "exploding net")
FIT = ("fits: net", "fits: linear", "cut graph", "double softmax", "blind net")
RATES = ("rate: net", "rate: linear", "rate: regression")
SHARP = ("sharpness: fresh", "sharpness: trained", "sharpness: memorised noise")
LOSSES = ("loss: fine", "loss: bad input", "loss: bad weight", "loss: infinite")
PROGRAMS = "the truth beside each program of the clinic"
DRAWN = "the shape each curve was drawn with"

CONTRACT: dict[int, Held] = {
    1: Held("rise", SHARP),
    2: Held(DRAWN, shapes=("loss falls, accuracy stands", "accuracy rises, loss stands", "overconfident", "spikes", "healthy"),
            rows="000:loss-accuracy"),
    3: Held("the branches of the trees", tests=(f"{HERE}::test_every_complaint_has_hypotheses_with_a_way_to_settle_them",
            "tests/trials/test_investigate.py", "tests/trials/test_eleven_pm.py")),
    4: Held(DRAWN, shapes=("healthy", "exploding", "stuck", "oscillating", "overfit", "underfit"), rows="000:curve"),
    5: Held(PROGRAMS, rows="000:symptom"),
    6: Held("norms", NETS), 7: Held("status", NETS), 8: Held("norms", ("flow: healthy", "flow: vanishing", "flow: exploding")),
    9: Held(PROGRAMS, rows="002:gradient-norm 001:gradient-flow 001:dead-relu 001:nan-exploding"),
    10: Held("k times the rate", tests=(f"{VERDICTS}::test_a_larger_batch_is_tried_under_both_rules",
             f"{VERDICTS}::test_a_scaling_rule_is_named_when_a_longer_race_gives_the_same",
             f"{VERDICTS}::test_a_fork_against_itself_finds_nothing_and_a_hot_rate_is_seen")),
    11: Held("steepest", RATES), 12: Held("steepest", ("picture: html", "picture: svg", "picture: png")),
    13: Held("cosine", ("cosine: warm-up", "cosine: none", "cosine: late")),
    14: Held("torch.optim.lr_scheduler.OneCycleLR", ("cycle: 20", "cycle: 100", "cycle: 300")),
    15: Held("clipped", ("clip: healthy", "clip: vanishing", "clip: exploding", "clip: NaN")),
    16: Held(PROGRAMS, rows="000:nan"),
    17: Held("holding_nan", ("finite net", "NaN weight", "infinite bias", "infinite buffer")),
    18: Held("holding_nan", ("hooks: sound", "hooks: NaN", "hooks: infinity in a tuple", "hooks: backward")),
    19: Held("batch_is_bad", ("batches: healthy", "batches: sick", "batches: sick there, missed by the reference")),
    20: Held("math.isfinite", LOSSES), 21: Held("memorises", FIT),
    22: Held("the counts of the plain loop", tests=(
        f"{WATCH}::test_skipped_updates_are_counted_right_and_clean_weights_are_not_thrown_away",
        f"{WATCH}::test_the_summary_has_the_numbers_of_the_loop",
        f"{WATCH}::test_without_the_guard_the_same_run_must_be_repeated")),
    23: Held("norms", ("logger: healthy", "logger: vanishing", "logger: exploding"),
             tests=(f"{KIT}::test_the_loggers_own_call_is_silent_with_a_loss_that_has_a_graph",)),
    24: Held("the loop as it stands", tests=("tests/test_examples.py::test_the_production_loop_learns_and_is_found_healthy",
             f"{WATCH}::test_the_summary_has_the_numbers_of_the_loop",
             f"{KIT}::test_inputs_of_the_wrong_scale_are_named_and_the_limits_are_the_users")),
    25: Held(PROGRAMS, rows="000:common-mistake"),
    26: Held("the lines of the checklist", tests=(f"{HERE}::test_every_line_of_a_checklist_has_an_answer",
             f"{VERDICTS}::test_the_preflight_passes_a_healthy_task_and_names_a_double_softmax",
             "tests/rules/test_data002.py::test_what_the_script_makes_of_a_batch_is_judged_and_not_the_batch")),
    27: Held(PROGRAMS, rows="000:eleven-pm-dead 000:eleven-pm-statue 000:symptom-3 001:lr-too-low"),
    28: Held("rise", SHARP), 29: Held("steepest", RATES),
    30: Held("the operation that was put in", tests=(f"{FAULTS}::test_the_finding_names_the_operation_and_the_line",
             f"{FAULTS}::test_benign_infinities_give_no_finding",
             "tests/forensics/test_late.py::test_the_line_is_named_on_a_skipped_step",
             "tests/probes/test_data.py::test_what_a_second_model_gets_from_the_first_is_no_data")),
    31: Held("the share of norms above the limit", tests=(f"{BREAKS}::test_the_share_of_clipped_steps_is_read_from_a_log",
             "tests/rules/test_optm006.py::test_never_clipped_is_a_remark",
             "tests/rules/test_optm006.py::test_a_threshold_at_the_tail_is_clear")),
    32: Held(PROGRAMS, rows="000:common-mistake-1 000:eleven-pm-batchnorm", tests=(
        "tests/rules/test_actv008.py::test_healthy_gaps_are_clear",
        "tests/rules/test_actv008.py::test_training_batches_in_eval_mode_are_the_surest_sign")),
    33: Held(PROGRAMS, rows="000:eleven-pm"), 34: Held("memorises", FIT),
    35: Held("what was done to the run", tests=(
        f"{BREAKS}::test_an_unstable_formula_is_named_with_the_stable_call_also_after_a_large_step",
        f"{BREAKS}::test_norms_that_grew_for_thirty_steps_are_an_explosion_and_flat_norms_are_not",
        f"{BREAKS}::test_the_fused_loss_on_the_same_net_is_no_unstable_operation"), rows="001:nan"),
    36: Held(PROGRAMS, rows="001:lr-too-low 001:wrong-loss 001:not-shuffled 004:subtle-correctness"),
    37: Held(DRAWN, shapes=("overfit", "underfit", "healthy"), rows="001:overfitting 001:underfitting"),
    38: Held(PROGRAMS, rows="001:dead-relu", tests=("tests/rules/test_actv001.py::test_names_the_layer_and_the_share",
             "tests/rules/test_actv001.py::test_narrow_healthy_nets_have_a_quarter_of_them")),
    39: Held("norms", NETS), 40: Held(PROGRAMS, rows="001:spikes 001:flatline 001:val-flat 001:both-flat", shapes=("spikes",)),
    41: Held("torch.std", ("logger: healthy", "logger: vanishing", "logger: exploding")),
    42: Held("math.isfinite", LOSSES), 43: Held(PROGRAMS, rows="002:"), 44: Held("statistics", NETS),
    45: Held("clipped", ("clip: healthy", "clip: vanishing", "clip: exploding", "clip: NaN")),
    46: Held("the norms of the plain loop", tests=(f"{WATCH}::test_a_line_and_an_event_at_each_crossing_of_the_limit",
             f"{WATCH}::test_a_healthy_run_crosses_nothing_and_nan_is_named",
             f"{WATCH}::test_the_summary_has_the_numbers_of_the_loop")),
    47: Held("log_softmax", ("logits: usual", "logits: large", "logits: huge"), tests=(
        f"{BREAKS}::test_an_unstable_formula_is_named_with_the_stable_call_also_after_a_large_step",)),
    48: Held("slope and curvature", tests=(f"{VERDICTS}::test_a_plateau_and_a_saddle_are_told_apart",
             f"{VERDICTS}::test_the_largest_eigenvalue_is_the_dense_one",
             f"{KIT}::test_sharpness_says_flat_sharp_or_not_at_a_minimum_with_the_ratio")),
    49: Held(PROGRAMS, rows="003:triage"),
    50: Held(PROGRAMS, rows="003:curve-gallery 000:curve", tests=(f"{BROWSER}::test_the_explorers_draw_and_answer",)),
    51: Held("double_softmax", ("softmax: 3", "softmax: 10", "logits: usual")), 52: Held(PROGRAMS, rows="003:validation"),
    53: Held("a net computed by hand", tests=(f"{EXPLORE}::test_every_net_of_the_lessons_is_there_and_judged",
             f"{EXPLORE}::test_the_gradient_is_the_gradient", f"{EXPLORE}::test_what_is_not_known_is_refused")),
    54: Held("percentile", ("threshold: net", "threshold: linear", "threshold: runaway")),
    55: Held("units that never fire", tests=(f"{EXPLORE}::test_a_hot_rate_kills_units_or_runs_away",
             f"{EXPLORE}::test_wild_numbers_are_tamed", f"{EXPLORE}::test_the_page_offers_what_is_computed")),
    56: Held("four trainings", tests=(f"{EXPLORE}::test_four_shapes_of_weights_from_four_real_trainings",
             f"{EXPLORE}::test_the_page_offers_what_is_computed", f"{BROWSER}::test_the_explorers_draw_and_answer")),
    57: Held("the same draws again", ("seed: 0", "seed: 1", "seed: 7"),
             tests=(f"{KIT}::test_determinism_may_only_warn_and_the_hash_seed_is_set_and_taken_back",)),
    58: Held("steepest", RATES),
    59: Held("the lines of the checklist", tests=(f"{HERE}::test_every_line_of_a_checklist_has_an_answer",),
             shapes=("stuck", "healthy"), rows="003:triage-5"),
    60: Held("memorises", FIT),
    61: Held(PROGRAMS, rows="004:", tests=(f"{HERE}::test_every_line_of_a_checklist_has_an_answer",)),
    62: Held("mean and deviation of the finite entries", ("rank: fine", "rank: NaN", "rank: whole numbers"),
             tests=(f"{KIT}::test_two_ranks_say_who_they_are_and_notice_a_difference",)),
}  # fmt: skip
