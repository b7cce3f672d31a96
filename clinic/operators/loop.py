"""Faults of the loop."""

from __future__ import annotations

from clinic.operators.common import CLASSES, EVALUATION, FIX, RESTART, quiet
from clinic.patches import loop
from clinic.surgery import Level, Operator, both, at_backward, at_model, replace

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "weights_alone_saved", "checkpoints hold the weights alone: a resume would start Adam anew", "REPR005", ("REPR005",), ("incomplete-checkpoint", "optimizer-state-lost"),
        ("healthy", "wait", *FIX), (Level("weights", "weights", least="info"), quiet("everything", "everything")), loop.checkpoint,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "zero_grad_missing", "zero_grad is never called", "WIRE004", ("WIRE004",), ("zero-grad-missing",), RESTART,
        (Level("never", "never"), quiet("by-hand", "by hand")), loop.drop_zero_grad,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "recommender", "vae_digits"),
    ),
    Operator(
        "left_in_eval", "after the first validation the model stays in eval mode", "WIRE005", ("WIRE005",), ("training-in-eval-mode",), FIX,
        (Level("for-good", "for good"), quiet("train-true", "spelled otherwise")), loop.leave_eval,
        ("digits_mlp", "digits_cnn", "encoder_padded", "conv_autoencoder"),
    ),
    Operator(
        "validates_in_train_mode", "validation never switches to eval mode", "EVAL009", ("EVAL009",), ("evaluation-in-train-mode",), EVALUATION,
        (Level("never", "never"), quiet("train-false", "spelled otherwise")), loop.no_eval,
        ("digits_mlp", "digits_cnn", "encoder_padded", "conv_autoencoder"),
    ),
    Operator(
        "validates_with_graphs", "validation builds graphs", "EVAL009", ("EVAL009",), ("evaluation-in-train-mode", "evaluation-builds-graphs"),
        ("fix-evaluation", "healthy", "wait"), (Level("always", "always", least="info"), quiet("inference-mode", "inference mode")), loop.no_no_grad,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "softmax_then_ce", "probabilities go into cross-entropy", "WIRE006", ("WIRE006", "LOSS011"), ("double-activation",), RESTART,
        (Level("softmax", "torch.softmax(OUT, dim=-1)"), quiet("log-softmax", "torch.log_softmax(OUT, dim=-1)")),
        loop.activate_for("classification", "lm"), (*CLASSES, "char_gpt"),
    ),
    Operator(
        "sigmoid_then_bce", "probabilities go into a loss that expects logits", "WIRE006", ("WIRE006",), ("double-activation",), RESTART,
        (Level("sigmoid", "torch.sigmoid(OUT)"), quiet("scaled", "1.1 * OUT")), loop.activate_for("binary"), ("cancer_tabular",),
    ),
    Operator(
        "unreachable_targets", "a bounded head for unbounded targets", "WIRE007", ("WIRE007",), ("loss-head-mismatch",), RESTART,
        (Level("relu", "torch.relu(OUT)"), Level("tanh", "torch.tanh(OUT)"), quiet("wide-tanh", "8 * torch.tanh(OUT / 8)")),
        loop.activate_for("regression", "moe"), ("surface_regression", "recommender", "moe_piecewise"),
    ),
    Operator(
        "mse_broadcast", "predictions and targets broadcast to a square", "WIRE008", ("WIRE008", "LOSS011"), ("loss-broadcast",), RESTART,
        (Level("square", "square"), quiet("both-flat", "both sides")), loop.broadcast, ("surface_regression", "recommender", "moe_piecewise"),
    ),
    Operator(
        "head_not_owned", "the optimizer does not hold all parameters", "WIRE001", ("WIRE001",), ("parameters-not-in-optimizer",), FIX,
        (Level("without-head", "list({m}.parameters())[:-2]"), Level("without-stem", "list({m}.parameters())[2:]"), quiet("as-list", "list({m}.parameters())")),
        loop.own_part, ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "conv_autoencoder"),
    ),
    Operator(
        "frozen_midway", "part of the network is frozen after its first step", "WIRE002", ("WIRE002", "GRAD004"), ("frozen-parameters",), FIX,
        (Level("most", 0.7), Level("some", 0.35), quiet("none", 0.0)), loop.freeze_later, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "detached_output", "the graph is cut between the network and its loss", "WIRE003", ("WIRE003", "GRAD004", "WIRE016", "LOSS002"),
        ("detached-graph", "step-without-gradient"), RESTART, (Level("cut", "cut"), quiet("copy", "copy")), loop.detach_output,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "recommender"),
    ),
    Operator(
        "double_step", "the optimizer steps more than once per backward", "WIRE011", ("WIRE011",), ("double-step",), FIX,
        (Level("thrice", 3), Level("twice", 2)), loop.step_again, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "recommender"),
    ),
    Operator(
        "accumulation_undivided", "micro-batch losses are summed without division", "WIRE011", ("WIRE011",), ("accumulation-undivided", "lr-too-high"), (*FIX, "healthy", "wait"),
        (Level("eight", (8, False), least="info"), Level("four", (4, False), least="info"), quiet("divided", (4, True))), loop.accumulate,  # Adam does not mind the scale
        ("digits_mlp", "digits_cnn", "cancer_tabular", "gru_walks"),
    ),
    Operator(
        "cleared_too_early", "zero_grad stands between backward and step", "WIRE016", ("WIRE016", "LOSS002"), ("step-without-gradient",), RESTART,
        (Level("between", "between"), quiet("after-step", "after the step")), loop.clear_between,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "vae_digits"),
    ),
    Operator(
        "backward_missing", "backward is never called", "WIRE016", ("WIRE016", "LOSS002"), ("step-without-gradient",), RESTART,
        (Level("never", "never"), quiet("autograd-grad", "by autograd")), loop.drop_backward,
        ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "losses_kept", "every loss is kept with its graph", "PERF002", ("PERF002",), ("memory-leak",), ("fix-and-resume", "healthy", "wait"),
        (Level("graph", "graph"), quiet("number", "number")), loop.keep_losses, ("digits_mlp", "surface_regression", "gru_walks", "recommender"),
    ),
    Operator(
        "gate_at_zero", "a branch enters the loss through a gate that stands at zero", "GRAD004", ("GRAD004",), ("detached-graph", "dead-units", "unregistered-modules"), FIX,
        (Level("zero", "0.0"), quiet("small", "0.01")),
        both(at_model("{m}.side = nn.Linear(24, 24)"), at_backward("loss = loss + {v} * {model}.side.weight.pow(2).mean()")),
        ("digits_cnn", "cancer_tabular", "recommender", "gru_walks"),
    ),
    Operator(
        "prefix_ignored", "a checkpoint whose names carry a prefix is loaded with strict=False", "WIRE015", ("WIRE015", "TUNE008"), ("partial-checkpoint", "pretrained-not-loaded"),
        RESTART, (Level("module", "module."), Level("compiled", "_orig_mod."), quiet("same-names", "")),
        at_model('saved = {{"{v}" + name: t.clone() for name, t in {m}.state_dict().items()}}\n{m}.load_state_dict(saved, strict=False)'),
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt"),
    ),
    Operator(
        "weights_not_found", "none of the names in the file of trained weights is one of the model's, and strict=False hides it", "TUNE008", ("TUNE008", "WIRE015"),
        ("pretrained-not-loaded", "partial-checkpoint"), (*RESTART, "healthy", "wait"), (Level("other-names", "backbone.", least="info"), quiet("same-names", "")),
        at_model('torch.save({{"{v}" + name: t for name, t in {m}.state_dict().items()}}, "pretrained.pt")\n{m}.load_state_dict(torch.load("pretrained.pt"), strict=False)'),
        ("digits_mlp", "gru_walks", "surface_regression", "lines_gpt"),
    ),
    Operator(
        "classes_leave", "half-way the first classes are no longer trained on, and the model forgets them", "TUNE001", ("TUNE001", "EVAL004", "LOSS008", "DATA008", "DATA005"),
        ("forgetting", "train-val-mismatch", "overfitting", "data-not-shuffled"), ("stop-keep-best", *FIX, *EVALUATION), (Level("half", 5), quiet("none", 0)), loop.classes_leave,
        ("digits_mlp", "digits_cnn"),
    ),
    Operator(
        "classes_leave_of_few", "half-way one of the classes is no longer trained on, and the model forgets it", "TUNE001", ("TUNE001", "EVAL004", "LOSS008", "DATA008", "DATA005"),
        ("forgetting", "train-val-mismatch", "overfitting", "data-not-shuffled"), ("stop-keep-best", *FIX, *EVALUATION), (Level("first", 1), quiet("none", 0)), loop.classes_leave,
        ("gru_walks",),
    ),
    Operator(
        "layer_in_a_list", "output layers live in a plain list that parameters() does not see", "WIRE014", ("WIRE014", "WIRE001"),
        ("unregistered-modules", "parameters-not-in-optimizer"), RESTART, (Level("list", "[{0}, {0}]"), quiet("module-list", "nn.ModuleList([{0}])")), loop.in_a_list,
        ("digits_cnn", "cancer_tabular", "gru_walks", "encoder_padded"),
    ),
    Operator(
        "softmax_over_batch", "the softmax runs over the batch", "WIRE009", ("WIRE009", "WIRE006", "WIRE007"), ("batch-mixing", "double-activation"), RESTART,
        (Level("log-softmax", "torch.log_softmax(OUT, dim=0)"), quiet("over-classes", "torch.log_softmax(OUT, dim=-1)")), loop.activate_for("classification"),
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual", "encoder_padded"),
    ),
    Operator(
        "weights_lost", "in the middle of the run the weights of the start are loaded again", "LOSS006", ("LOSS006", "LOSS001", "REPR003"),
        ("resume-mismatch", "optimizer-state-lost", "broken-weights-loaded"), FIX, (Level("start", "start"), quiet("themselves", "themselves")), loop.weights_lost,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "digits_cnn"),
    ),
    Operator(
        "loss_slips", "now and then one loss is multiplied", "GRAD003", ("GRAD003", "LOSS006", "LOSS007", "OPTM007"), ("outlier-batches", "exploding-gradients"), (*FIX, "healthy", "wait"),
        (Level("severe", 1000.0, least="info"), Level("moderate", 100.0, least="info"), quiet("slight", 1.5)), loop.now_and_then("loss = loss * {v}"),
        ("surface_regression", "cancer_tabular", "digits_mlp", "char_gpt"),
    ),
    Operator(
        "never_seeded", "random numbers are used and never seeded", "REPR001", ("REPR001",), ("nondeterminism",), ("healthy", "wait", "cannot-tell"),
        (Level("unseeded", "", least="info"), quiet("otherwise", "torch.random.manual_seed(SEED)\n")), replace("torch.manual_seed(SEED)\n", "{v}"),
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
)
# fmt: on
