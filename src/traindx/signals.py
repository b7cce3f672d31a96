"""The one vocabulary: every signal, fact and event a run may hold, by name.

Probes and importers write these names, rules read them, and nothing else is allowed: a name that is not in these tables is
a bug (`tests/test_signals.py` walks both sides). A name that ends in `/*` is open: `metric/val/*` covers `metric/val/f1`.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class SignalSpec:
    """A quantity over steps."""

    name: str
    per: str  # "step" is a Series; param, module, group, class, channel … is a Matrix with that kind of names
    unit: str
    meaning: str


def _table(*rows: tuple[str, str, str, str]) -> dict[str, SignalSpec]:
    return {name: SignalSpec(name, per, unit, meaning) for name, per, unit, meaning in rows}


# A step is one update of the weights by the primary optimizer; step 0 is the first. "at step t": seen on the way to update t.
SIGNALS: dict[str, SignalSpec] = _table(
    # -- loss and metrics
    ("loss/train", "step", "loss", "training loss of the batches behind this update, mean over micro-batches, undivided"),
    ("loss/val", "step", "loss", "loss of one whole evaluation, sample-weighted mean"),
    ("loss/terms", "term", "loss", "parts of a summed training loss, where they were seen apart"),
    ("loss/optimizer", "optimizer", "loss", "loss behind the latest update of each optimizer, where there are several"),
    ("loss/sample_var", "step", "loss²", "variance of the per-sample losses inside the batch (EVR, CATALOGUE 2.5)"),
    ("metric/train/*", "step", "", "what the user logged about training"),
    ("metric/val/*", "step", "", "what the user logged about validation"),
    ("metric/test/*", "step", "", "what the user logged about a test set"),
    ("metric/other/*", "step", "", "what the user logged and we could not place"),
    ("accuracy/train", "step", "share", "batch accuracy from the loss call's logits and targets"),
    ("accuracy/val", "step", "share", "accuracy over one whole evaluation, from the loss call's logits and targets"),
    ("confidence/train", "step", "share", "mean probability of the predicted class in the batch"),
    ("confidence/val", "step", "share", "mean probability of the predicted class over one evaluation"),
    ("eval/samples", "step", "count", "samples seen in one evaluation"),
    ("eval/claimed_accuracy", "step", "share", "accuracy that the script printed with one evaluation"),
    ("eval/loss_se", "step", "loss", "standard error of loss/val from its per-batch or per-sample spread"),
    ("eval/nll_tempered", "step", "loss", "loss/val after the best temperature (on one half of the evaluation)"),
    ("eval/temperature", "step", "", "that temperature"),
    ("eval/unweighted_loss", "step", "loss", "mean of batch means of one evaluation, unweighted by batch size"),
    ("eval/recall/class", "class", "share", "recall of each class over one evaluation"),
    ("eval/predicted/class", "class", "count", "how often each class was predicted over one evaluation"),
    ("eval/support/class", "class", "count", "targets of each class over one evaluation"),
    ("eval/loss/batch", "batch", "loss", "loss of each batch of one evaluation in their order, where there are at most 16"),
    ("eval/train_in_eval", "step", "loss", "loss of training data evaluated by themselves (also trials, capsules)"),
    (
        "probe/loss",
        "step",
        "loss",
        "loss on the user's probe set of the original task, `dx.log(probe_loss=…)`; the first record is before training",
    ),
    ("probe/loss_se", "step", "loss", "standard error of probe/loss"),
    ("epoch", "step", "epochs", "epoch this step belongs to, fractional where the log says so"),
    # -- learning rate, clipping, precision
    ("lr", "step", "", "learning rate of the first parameter group when the update was made"),
    ("lr/group", "group", "", "learning rate of every parameter group"),
    ("clip/norm", "step", "", "total gradient norm before clipping, as the clip call measured it (unscaled)"),
    ("clip/threshold", "step", "", "the clip call's limit"),
    ("amp/scale", "step", "", "GradScaler scale"),
    ("amp/skipped", "step", "0/1", "the scaler skipped this update"),
    # -- gradients, read once, just before the update (after clipping and unscaling)
    ("grad_norm", "step", "", "2-norm of all gradients, before clipping where the script clips, unscaled"),
    ("grad_norm/param", "param", "", "2-norm of each gradient as the optimizer saw it; NaN where there was none"),
    ("grad_mean/param", "param", "", "mean of each gradient"),
    ("grad_std/param", "param", "", "standard deviation of each gradient"),
    ("grad_maxabs/param", "param", "", "largest magnitude in each gradient"),
    ("grad_zero/param", "param", "share", "share of exact zeros in each gradient"),
    ("grad_nonfinite/param", "param", "share", "share of NaN or infinite entries in each gradient (sampled)"),
    ("grad_none/param", "param", "0/1", "the parameter had no gradient at this update"),
    ("grad_q05/param", "param", "", "5 % quantile of each gradient (sampled)"),
    ("grad_q50/param", "param", "", "median of each gradient (sampled)"),
    ("grad_q95/param", "param", "", "95 % quantile of each gradient (sampled)"),
    ("grad_cosine", "step", "", "cosine between this gradient and the previous step's (sketch)"),
    ("grad_noise_scale", "step", "samples", "B_noise from micro-batches, ranks or trials (CATALOGUE 2.14)"),
    ("grad_terms/term", "term", "", "gradient norm of each loss term on the shared parameters (trials)"),
    # -- weights and updates
    ("weight_norm", "step", "", "2-norm of all weights"),
    ("weight_norm/param", "param", "", "2-norm of each parameter"),
    ("weight_mean/param", "param", "", "mean of each parameter"),
    ("weight_std/param", "param", "", "standard deviation of each parameter"),
    ("weight_maxabs/param", "param", "", "largest magnitude in each parameter"),
    ("weight_kurtosis/param", "param", "", "kurtosis of each parameter (sampled; 3 for a Gaussian)"),
    *(
        (f"weight_q{q:02d}/param", "param", "", f"{q} % quantile of each parameter (sampled)")
        for q in (0, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99)
    ),
    ("weight_tiny/param", "param", "share", "share of entries with magnitude below 0.01 in norm gains"),
    ("weight_nonfinite/param", "param", "share", "share of NaN or infinite entries in each parameter (sampled)"),
    (
        "weight_twins/param",
        "param",
        "share",
        "share of rows that equal another row of the same tensor, of an embedding: dimensions (first steps and occasionally)",
    ),
    ("weight_sigma/param", "param", "", "largest singular value of attention and MLP matrices (two power iterations)"),
    ("row_norm_p01/param", "param", "", "1 % quantile of embedding row norms"),
    ("row_norm_p50/param", "param", "", "median of embedding row norms"),
    ("row_norm_p99/param", "param", "", "99 % quantile of embedding row norms"),
    ("update_ratio", "step", "", "median over weight matrices of |Δw| / |w|"),
    ("update_ratio/param", "param", "", "|Δw| / |w| of each parameter at this update (sketch of at most 4096 entries)"),
    ("lost_updates/param", "param", "share", "entries whose requested change did not alter a low-precision weight"),
    ("adam_small_v/param", "param", "share", "entries with sqrt(v̂) < 10 ε"),
    ("adam_rms/param", "param", "", "sqrt(mean(g² / max(v̂, ε²))), CATALOGUE OPTM007"),
    ("decay_share/param", "param", "", "lr·wd·|w| over the norm of the gradient part of the update"),
    ("state_nonfinite", "step", "count", "parameters, buffers or optimizer moments with non-finite entries"),
    # -- activations (train-mode forwards unless said)
    ("act_rms/module", "module", "", "root mean square of each module's output"),
    ("act_mean/module", "module", "", "mean of each module's output"),
    ("act_std/module", "module", "", "standard deviation of each module's output"),
    ("act_maxabs/module", "module", "", "largest magnitude of each module's output"),
    ("act_zero/module", "module", "share", "share of exact zeros in each module's output (sparsity, not death)"),
    ("act_saturated/module", "module", "share", "units of a bounded activation stuck on one side in > 90 % of samples"),
    ("act_nonfinite/module", "module", "share", "share of non-finite entries in each module's output (sampled)"),
    ("act_limit/module", "module", "share", "largest magnitude over the dtype's largest finite number"),
    ("dead_fraction/module", "module", "share", "units silent over the whole liveness window (CATALOGUE 2.13)"),
    ("dead_samples/module", "module", "samples", "samples in that window"),
    ("dormant_fraction/module", "module", "share", "units with mean |h| at most 0.025 of the layer mean"),
    (
        "effective_rank/module",
        "module",
        "",
        "exp(entropy of singular values) of the features that go into the module, the last linear layer",
    ),
    ("feature_cosine/module", "module", "", "mean pairwise cosine of features"),
    ("attn_entropy/module", "module", "share", "lowest head's attention entropy over ln(n)"),
    ("attn_logit_max/module", "module", "", "largest attention logit"),
    ("bn_mean_gap/module", "module", "", "median |batch mean - running mean| / running std"),
    ("bn_var_gap/module", "module", "", "median |ln(batch var / running var)|"),
    ("output_std", "step", "", "mean over outputs of the std over samples of what went into the loss"),
    ("output_top_share", "step", "share", "share of the most predicted class in the batch"),
    ("logit_maxabs", "step", "", "largest magnitude that went into a classification loss"),
    ("logz_mean", "step", "", "mean log partition of the logits"),
    ("expert_load/expert", "expert", "share", "share of tokens sent to each expert of a router"),
    ("vae/kl_active", "step", "share", "latent dimensions with KL above 0.01"),
    ("gan/d_real", "step", "", "mean discriminator output on real data"),
    ("gan/d_fake", "step", "", "mean discriminator output on fakes"),
    ("rl/entropy", "step", "", "policy entropy"),
    ("rl/kl", "step", "", "approximate KL per update"),
    ("rl/return", "step", "", "mean return of the latest episodes, as the user logged it"),
    ("rl/explained_variance", "step", "", "1 - Var(return - value) / Var(return)"),
    ("gan/d_loss", "step", "", "loss of the discriminator, where a log has it"),
    ("gan/g_loss", "step", "", "loss of the generator, where a log has it"),
    ("gan/d_accuracy", "step", "share", "real and fake samples the discriminator tells right, both counted alike"),
    ("gan/g_grad_norm", "step", "", "gradient norm of the generator at its own update"),
    ("gan/fake_diversity", "step", "", "mean pairwise distance of a batch of fakes over that of a batch of reals"),
    (
        "ssl/embedding_spread",
        "step",
        "",
        "√d · mean over dimensions of the std over samples of normalised embeddings; 1 is spread, 0 collapsed",
    ),
    ("diffusion/loss/bin", "bin", "loss", "training loss by noise-level bin, low noise first"),
    # -- data
    ("batch/size", "step", "samples", "samples in the batch (sum over micro-batches)"),
    ("batch/input_mean", "step", "", "mean of the floating-point input"),
    ("batch/input_std", "step", "", "standard deviation of the floating-point input"),
    ("batch/input_min", "step", "", "smallest input value"),
    ("batch/input_max", "step", "", "largest input value"),
    ("batch/input_nonfinite", "step", "count", "NaN or infinite entries in inputs and targets"),
    ("batch/input_extreme", "step", "count", "samples with a value beyond 50 robust deviations of the first 2,000"),
    ("batch/input_integral", "step", "0/1", "all input values are whole numbers between 0 and 255"),
    ("batch/channel_mean", "channel", "", "input mean per channel or feature (at most 64)"),
    ("batch/channel_std", "channel", "", "input standard deviation per channel or feature (at most 64)"),
    ("batch/labels/class", "class", "count", "targets of each class in the batch (at most 100 classes)"),
    ("batch/label_min", "step", "", "smallest target"),
    ("batch/label_max", "step", "", "largest target"),
    ("batch/label_mean", "step", "", "mean target (regression)"),
    ("batch/label_std", "step", "", "standard deviation of the target (regression)"),
    ("batch/valid_targets", "step", "share", "targets that are not ignored"),
    ("batch/targets", "step", "count", "targets that are not ignored, on steps in which ranks are compared"),
    (
        "batch/micro_valid_cv",
        "step",
        "",
        "standard deviation over mean of the valid-target counts of the micro-batches of this update",
    ),
    (
        "loss/target_mean",
        "step",
        "loss",
        "loss of the classification per target of batch/targets, whatever was made of it later",
    ),
    ("loss/token_mean", "step", "loss", "Σ loss·valid targets / Σ valid targets over the micro-batches of this update"),
    ("batch/pad_share", "step", "share", "share of padding in token batches"),
    ("batch/length", "step", "tokens", "mean sequence length"),
    ("batch/fingerprint", "step", "", "content hash of the batch, folded to 52 bits"),
    ("batch/repeat", "step", "0/1", "the batch equals the previous one"),
    # -- the loop, counted between two updates
    ("loop/forwards", "step", "count", "training forwards of the model"),
    ("loop/backwards", "step", "count", "backward calls"),
    ("loop/zero_grads", "step", "count", "zero_grad calls (or gradients found cleared)"),
    (
        "loop/stale_grads",
        "step",
        "0/1",
        "gradients of the previous update were still there when this step's first backward began",
    ),
    ("loop/empty_step", "step", "0/1", "the update was made with every gradient None or zero"),
    ("loop/eval_mode", "step", "0/1", "the training forward ran with model.training False"),
    ("loop/eval_submodules", "step", "count", "sub-modules in eval mode while the model trained"),
    ("loop/scheduler_steps", "step", "count", "scheduler.step calls"),
    ("loop/clips", "step", "count", "clip calls"),
    # -- evaluation as it was run, one record per evaluation
    ("eval/train_mode", "step", "share", "share of validation forwards with model.training True"),
    ("eval/minds_mode", "step", "0/1", "in training mode: the evaluated model has a layer that behaves differently in it"),
    ("eval/grad_enabled", "step", "share", "share of validation forwards that built a graph"),
    ("eval/buffers_changed", "step", "0/1", "normalisation buffers changed during the evaluation"),
    ("eval/weights_differ", "step", "0/1", "the evaluated weights are not the trained ones"),
    (
        "eval/weights_stand",
        "step",
        "0/1",
        "the evaluated weights are not the trained ones and are as they were the time before",
    ),
    ("weights_moved", "step", "0/1", "weights changed since the previous evaluation"),
    # -- time and memory
    ("time/step", "step", "s", "wall time between two updates"),
    ("time/data", "step", "s", "waiting for the next batch"),
    ("time/forward", "step", "s", "inside the outermost training forward"),
    ("time/backward", "step", "s", "inside backward"),
    ("time/optimizer", "step", "s", "inside optimizer.step"),
    ("time/rest", "step", "s", "everything else between two updates"),
    ("time/eval", "step", "s", "evaluation since the previous update"),
    ("time/checkpoint", "step", "s", "torch.save since the previous update"),
    ("time/traindx", "step", "s", "our own cost, as we account it"),
    ("time/cpu", "step", "s", "processor time of the training thread per update, since the previous record"),
    ("throughput", "step", "1/s", "samples, tokens or steps per second, as logged"),
    ("mem/rss", "step", "bytes", "resident memory of the process"),
    ("mem/allocated", "step", "bytes", "accelerator memory in tensors"),
    ("mem/reserved", "step", "bytes", "accelerator memory held by the allocator"),
    ("mem/peak", "step", "bytes", "largest accelerator memory in tensors since the previous record"),
    ("mem/tensors", "step", "count", "live tensors at the census"),
    ("mem/graph_tensors", "step", "count", "live tensors with a grad_fn at the census"),
    ("mem/graph_nodes", "step", "count", "autograd nodes reachable from live tensors at the census"),
    ("recompiles", "step", "count", "torch.compile recompilations so far"),
    ("sync_calls", "step", "count", "host-device synchronising calls of the step (sampled)"),
    # -- ranks (each rank's own files; merged by the reader)
    ("rank/fingerprint", "step", "", "fingerprint of all parameters when the step began, folded to 52 bits"),
    ("rank/grad_fingerprint", "step", "", "fingerprint of all gradients at the update, folded to 52 bits"),
    (
        "rank/buffer_fingerprint",
        "step",
        "",
        "fingerprint of BatchNorm's running statistics, where nothing sends them to other ranks",
    ),
    ("shard_norm/param", "param", "", "2-norm of this rank's shard of each gradient, of sharded models; merged into grad_norm"),
    ("time/own", "step", "s", "time/step without what ranks wait for one another in; only with several ranks"),
    ("time/ddp_compute", "step", "s", "forward and backward of one step without communication, as DDP times it occasionally"),
    ("time/ddp_comm", "step", "s", "communication of that step, waiting for other ranks included"),
    ("rank/compute", "rank", "s", "time/ddp_compute of every rank, merged"),
    ("rank/comm", "rank", "s", "time/ddp_comm of every rank, merged"),
    ("rank/loss", "rank", "loss", "loss/train of every rank, merged"),
    ("rank/lr", "rank", "", "lr of every rank, merged"),
    ("rank/step_time", "rank", "s", "time/step of every rank without collectives, merged"),
    ("rank/params", "rank", "", "rank/fingerprint of every rank, merged"),
    ("rank/grads", "rank", "", "rank/grad_fingerprint of every rank, merged"),
    ("rank/buffers", "rank", "", "rank/buffer_fingerprint of every rank, merged"),
    ("rank/input_nonfinite", "rank", "count", "batch/input_nonfinite of every rank, merged"),
    ("rank/batch", "rank", "", "batch/fingerprint of every rank, merged"),
    ("rank/tokens", "rank", "count", "batch/targets of every rank, merged"),
    ("rank/token_loss", "rank", "loss", "loss/target_mean of every rank, merged"),
    ("rank/grad_norm", "rank", "", "grad_norm of every rank, merged"),
    # -- trials record under their own prefix
    ("trial/*", "step", "", "what a trial measured; each trial's page lists its names"),
)

_SPENT = ("step", "data", "forward", "backward", "optimizer", "rest", "eval", "checkpoint", "traindx")
# The one module whose code makes each signal. A signal that is not here comes from logs, users, trials or merged ranks.
WRITERS = {
    name: writer
    for writer, names in {
        "updates": "loss/train loss/optimizer epoch lr lr/group time/own",
        "evaluation_spans": (
            "loss/val eval/samples eval/loss_se eval/unweighted_loss eval/loss/batch eval/train_in_eval "
            "eval/train_mode eval/minds_mode eval/grad_enabled"
        ),
        "contract": (
            "loss/terms loss/sample_var accuracy/train confidence/train output_std output_top_share logit_maxabs "
            "logz_mean batch/labels/class batch/valid_targets batch/micro_valid_cv loss/token_mean"
        ),
        "validation": (
            "accuracy/val confidence/val eval/claimed_accuracy eval/recall/class eval/predicted/class "
            "eval/support/class eval/buffers_changed eval/weights_differ eval/weights_stand weights_moved"
        ),
        "validation_figures": "eval/nll_tempered eval/temperature",
        "loop": "probe/loss clip/norm clip/threshold amp/scale amp/skipped loop/eval_submodules",
        "gradients": (
            "grad_norm grad_norm/param grad_mean/param grad_std/param grad_maxabs/param grad_zero/param "
            "grad_nonfinite/param grad_none/param grad_q05/param grad_q50/param grad_q95/param grad_cosine"
        ),
        "weights": (
            "weight_norm weight_norm/param weight_mean/param weight_std/param weight_maxabs/param "
            "weight_kurtosis/param weight_q00/param weight_q05/param weight_q10/param weight_q25/param "
            "weight_q40/param weight_q50/param weight_q60/param weight_q75/param weight_q90/param "
            "weight_q95/param weight_q99/param weight_tiny/param weight_nonfinite/param weight_twins/param "
            "weight_sigma/param row_norm_p01/param row_norm_p50/param row_norm_p99/param update_ratio "
            "update_ratio/param lost_updates/param decay_share/param"
        ),
        "optimizers": "adam_small_v/param adam_rms/param state_nonfinite",
        "activations": (
            "act_rms/module act_mean/module act_std/module act_maxabs/module act_zero/module act_nonfinite/module "
            "act_limit/module attn_entropy/module attn_logit_max/module bn_mean_gap/module bn_var_gap/module"
        ),
        "liveness": (
            "act_saturated/module dead_fraction/module dead_samples/module dormant_fraction/module "
            "effective_rank/module feature_cosine/module"
        ),
        "experts": "expert_load/expert",
        "kinds_of_training": (
            "vae/kl_active gan/d_real gan/d_fake rl/entropy gan/d_accuracy gan/g_grad_norm gan/fake_diversity "
            "ssl/embedding_spread"
        ),
        "data": (
            "batch/size batch/input_mean batch/input_std batch/input_integral batch/channel_mean "
            "batch/channel_std batch/fingerprint batch/repeat"
        ),
        "extremes": "batch/input_min batch/input_max batch/input_nonfinite batch/input_extreme",
        "one_batch": "batch/label_min batch/label_max batch/label_mean batch/label_std batch/pad_share batch/length",
        "replicas": (
            "batch/targets loss/target_mean rank/fingerprint rank/grad_fingerprint rank/buffer_fingerprint shard_norm/param "
            "time/ddp_compute time/ddp_comm"
        ),
        "step": (
            "loop/forwards loop/backwards loop/zero_grads loop/stale_grads loop/empty_step loop/eval_mode "
            f"loop/scheduler_steps loop/clips {' '.join(f'time/{part}' for part in _SPENT)}"
        ),
        "memory": "time/cpu mem/rss mem/allocated mem/reserved mem/peak mem/tensors mem/graph_tensors",
        "leaks": "mem/graph_nodes",
        "compilation": "recompiles",
    }.items()
    for name in names.split()
}
REFINED = (
    "loss/val",
    "eval/loss_se",
)  # told by `evaluation_spans` from the loss calls, and by `validation` from each sample where it can

# Facts of a run: things known once, keyed by dotted name. Absent means "not seen", never "no".
FACTS: dict[str, str] = {
    "model.class": "class name of the outermost module that led to the loss",
    "model.params": "number of parameters",
    "model.trainable": "number of trainable parameters",
    "model.outline": "list of {name, class, params, order} for every module in forward order (order: first call, or null); "
    "inert: the same in training and eval mode (a dropout of zero)",
    "model.param_shapes": "parameter name → list of sizes",
    "model.param_dtypes": "parameter name → dtype, only where it is not float32",
    "model.param_module": "parameter name → class of the module that owns it",
    "model.frozen": "names of parameters with requires_grad False at the first step",
    "model.frozen_modules": "names of the whole modules they make up; empty when only single tensors are frozen",
    "model.frozen_later": "parameter name → step from which on requires_grad was False at every update of the optimizer that "
    "holds it, though it was True at the first",
    "model.unowned": "trainable parameters in no optimizer at the first step, with a gradient",
    "model.unowned_share": "their share of all trainable parameters",
    "model.foreign_params": "number of optimizer parameters that do not belong to the model (stale optimizer)",
    "model.unreachable": "trainable parameters held by an optimizer that no loss graph reached, over all walks so far",
    "model.boundary": "module whose output lost its graph, where it could be named",
    "model.never_called": "modules with parameters that no forward called in the first 20 steps",
    "model.unregistered": "attributes with modules in a plain list or dict: {attribute: {class, count, params, in_optimizer}}",
    "model.eval_in_training": "modules with dropout or norm layers that were in eval mode while the model trained: names",
    "model.attention_masks": "self-attention calls of training forwards by how they were masked: {causal, masked, "
    "none, open: "
    "masked, but nearly every position sees later ones, ahead: how far the least open of these}",
    "model.pooling": "{bare, masked}: means over the positions of token sequences, without and with a mask before them",
    "model.condensed": "a linear layer was given one vector for each token sequence: the model sums sequences up",
    "model.recurrent": "{both_ways, all}: recurrent layers that read both ways, and all of them",
    "loss.beside_source": "the model was given another sequence besides the one that is held against the targets",
    "model.pad_mask": "key padding masks against the padding of the input: {valid_masked: share, pad_attended: share}",
    "model.scrambled": "module → {from, to}: its input is a view of another tensor whose sizes come in another order",
    "model.time_first": "recurrent and attention modules with batch_first=False: {module: the first two sizes of its input}",
    "model.batch_softmax": "modules in which a softmax of the training graph ran over the batch: axis 0 of a tensor "
    "of two or "
    "more dimensions whose first size is the number of samples",
    "model.linear_pairs": "pairs of linear layers with no non-linearity between them",
    "model.tied": "groups of parameter names that shared storage at the first step",
    "model.tying_broken": "groups that shared storage once and no longer do, or declare tying and do not share",
    "model.activations": "module name → activation kind (relu, gelu, tanh, sigmoid …)",
    "model.head_activation": "activation applied last before the loss: {kind, module, range: [lo, hi] (null: unbounded), dim}",
    "model.read_unused": "weights that torch.load read, that fit the model and never reached it before step 0: {share, names}",
    "model.overwritten": "weights that were loaded before step 0 and of which nothing was left at step 0: {share (of "
    "all that "
    "was loaded), names}",
    "model.loaded": "weights were loaded before step 0: {missing, unexpected, unloaded_share}",
    "model.init_gain": "parameter name → RMS·sqrt(fan_in) before step 0",
    "model.twin_rows": "parameter name → share of identical rows before step 0",
    "model.adapters": "names of adapter parameters (LoRA pairs) seen",
    "model.adapter_b_zero": "adapter B matrices that were still exactly zero at the end",
    "model.recall": "recurrent layer → {kind, length (of its sequences), keep (share of the state passed on per step at the "
    "start: a bound for plain layers, the open gate of LSTM and GRU)}",
    "model.norm_gains": "names of normalisation gain parameters",
    "model.embeddings": "names of embedding parameters",
    "optimizer.name": "class of the primary optimizer",
    "optimizer.count": "optimizers that stepped",
    "optimizer.groups": "list of {lr, weight_decay, betas, eps, momentum, params, low_dim} of the primary optimizer",
    "optimizer.duplicates": "names of parameters in two groups or two optimizers",
    "optimizer.empty_groups": "indexes of groups without parameters",
    "optimizer.fresh_at_step": "step > 0 at which optimizer state was empty (resume without state)",
    "optimizer.disjoint": "≥ 2 optimizers stepped disjoint parameters alternately",
    "optimizer.steps": "calls of optimizer.step per optimizer, in order of first step",
    "schedule.name": "class of the scheduler",
    "schedule.params": "its constructor values (T_max, step_size, total_steps, …)",
    "schedule.planned_steps": "scheduler steps until the schedule ends",
    "schedule.before_optimizer": "scheduler.step was called before the first optimizer.step",
    "schedule.count": "scheduler objects that were built after the first update",
    "schedule.objects": "distinct outermost scheduler objects that stepped",
    "loop.unused_backwards": "how often the line that trains went backward after the last step of any optimizer",
    "code.source": "place of a finding (file:line) → five lines of source around it, taken while the script ran",
    "code.sites": "lines of the user's code (file:line): {optimizer, scheduler, loader, val_loader: where they are made; "
    "dataset: where it gives a sample; forward: where training calls the model; evaluate: where an evaluation does; backward, "
    "clip, step, zero_grad, schedule (scheduler.step), eval, save, load: where they are called first; compared: where "
    "predictions meet labels, metric, mean: where an accuracy or a mean loss is printed; activation: where what the loss gets "
    "goes through a softmax or sigmoid}",
    "code.origins": "lines that decided what is used at the lines of code.sites: {rate, model, horizon; data, "
    "sampler, val_data; criterion, ignored, target, drawn, sum, weight: of the loss; mask; guard, given: of the evaluation; "
    "average, figure: of what is printed}",
    "loss.by_hand": "mse: the loss is a plain mean of squared differences, written by hand",
    "loss.kind": "ce, bce, bce_logits, nll, mse, l1, huber, kl, ctc, contrastive, margin or unknown",
    "loss.weightless": "classes whose weight in the loss is zero",
    "loss.classes": "number of classes C of a classification loss",
    "loss.smoothing": "label smoothing",
    "loss.ignore_index": "ignore_index",
    "loss.reduction": "mean, sum or none",
    "loss.divided": "the loss is summed and then divided, by the number of targets most often",
    "loss.weighted": "class or sample weights were given",
    "loss.site": "file:line of the training loss call",
    "loss.input_shape": "shape of the first argument",
    "loss.target_shape": "shape of the second argument",
    "loss.target_dtype": "dtype of the second argument",
    "loss.broadcast": "shapes differed and were broadcast",
    "loss.input_range": "[min, max] of the first argument over the checked batches",
    "loss.target_range": "[min, max] of the second argument over the checked batches",
    "loss.target_integral": "float targets of a regression loss that are all small whole numbers (class ids?)",
    "loss.target_unique": "distinct target values seen, at most 1001",
    "loss.target_evenness": "how often the rarest of the target values was seen, as a share of the most frequent",
    "loss.target_first_class": "the largest floating-point target that class 0 of a cross-entropy ever had",
    "loss.straight": "what goes into the loss comes straight from a linear layer, in every checked batch",
    "loss.target_row_sum": "[min, max] of the row sums of floating-point targets of a cross-entropy",
    "loss.probabilities": "every checked input row was non-negative and summed to 1",
    "loss.log_probabilities": "every checked input row was a log-probability",
    "loss.unit_interval": "every checked input was inside [0, 1]",
    "loss.unreachable_share": "share of targets outside the head's reachable range",
    "loss.wrong_class_axis": "class axis suspected in the wrong place: {shape, classes, torn: reshaped across it}",
    "loss.column_probabilities": "every checked input column, over the batch, was non-negative and summed to 1",
    "loss.target_one_hot": "every checked target row of two or more columns was one-hot",
    "loss.checked_batches": "batches behind these loss facts",
    "loss.may_be_negative": "a negative training loss was seen or the kind allows it",
    "loss.self_target_share": "share of positions where the target equals the input token",
    "loss.next_target_share": "share of positions where the target equals the next input token (next-token prediction)",
    "loss.second_target_share": "share of positions where the target equals the input token after the next",
    "data.loader": "of the training loader: {batch_size, shuffle (null: unknown), sampler, replacement, num_workers, "
    "drop_last, dataset, length (batches), samples}",
    "data.fetched": "batches the training loader handed out, and iterators made of it: {batches, iterators}",
    "data.bad_samples": "first 20 of {step, field, kind (nonfinite, extreme, constant, empty), samples: places in the batch, "
    "indexes: in the data set, where the sampler tells}",
    "data.label_probe": "do inputs predict labels? Nearest-neighbour and linear probe on a sketch of the first samples: {n, "
    "features, kind (class, regression), score, null_mean, null_sd, permutations}. The score is the better of the two; null is "
    "the same after permuting labels. Of classes also {sure_errors, next_errors}: how often labels contradict the probes in "
    "the quarter of the samples where these are surest, and in the next",
    "data.label_noise": "estimated share of wrong labels, out of fold: {share, n, method} (trials)",
    "data.same_set": "validation was read from the training set",
    "data.val_loader": "the same of the validation loader",
    "data.steps_per_epoch": "optimizer steps per epoch",
    "data.samples_per_epoch": "samples per epoch",
    "data.unique_share": "distinct samples over samples drawn in the first epoch",
    "data.seen": "distinct samples hashed: {train, val}",
    "data.drawn": "training samples hashed, each as often as it came",
    "data.shared": "validation samples (by content) that were also trained on",
    "data.conflicts": "inputs (by content) seen with more than one label",
    "data.commonest": "the input that came most often, far more than others: {share (of samples), samples, labels}",
    "data.usual_spread": "robust deviation of an ordinary input feature over the first 2,000 samples",
    "data.met_again": "inputs (by content) seen more than once with a label",
    "data.duplicate_share": "training samples whose content was seen before within the first epoch",
    "data.order_repeats": "the second epoch served the batches in the same order",
    "data.label_dispersion": "χ²/dof of class counts over batches (1 when shuffled, ≫ 1 when sorted)",
    "data.label_dispersion_p": "its p-value",
    "data.class_counts": "targets per class over the run",
    "data.val_class_counts": "targets per class over evaluations",
    "data.input_stats": "{mean, std, min, max, n} of training inputs",
    "data.given_stats": "the same of what the model got, where the script changed or moved the loader's batch",
    "data.val_input_stats": "the same of validation inputs",
    "data.channel_stats": "{mean: [...], std: [...]} of training inputs",
    "data.val_channel_stats": "the same of validation inputs",
    "data.feature_auc": "feature index → one-feature AUC or R² against the target",
    "data.label_offset": "row offset at which labels fit inputs best, with its score",
    "data.val_random": "a validation sample came with different content in two evaluations",
    "data.worker_duplicates": "augmented samples that two workers both produced",
    "data.aug_repeats": "randomly augmented samples that came with the same content in the second epoch: "
    "{repeats, checked}; absent when nothing shows that samples are augmented at random",
    "data.series": "training samples are windows of one series in the order of time",
    "data.fixed_seed": "the constant that the training set's `__getitem__` seeds a generator with, for every sample",
    "data.token": "{vocab, max_id, pad_id, pad_stated, eos_id, eos_named, eos_given, unk_share, double_bos, top_share, "
    "added} of token inputs (eos_named: the program states the end token outside the model's config; eos_given: share of "
    "whole sequences that are given it at their end; added: {name, ids, ratio} of rows at the end of a frozen embedding that "
    "are of another size than all others)",
    "data.id_beyond": "{name, rows, id, positions}: the look-up that ended the program, in an embedding with that "
    "number of rows; "
    "whether its ids count up, as the places of a sequence do",
    "data.empty_rows": "of sequences that are predicted from themselves: {rows, empty, padded}, how many were looked at, how "
    "many of them have no target that counts, whether any is padded",
    "data.token_shift": "{distance, sorted}: total variation between the token frequencies of training and validation, by id "
    "and by rank",
    "data.eos_share": "sequences whose last valid label is the end token; where none is known, the largest share with "
    "one last "
    "label in common",
    "data.prompt_share": "where every sequence holds one mark between prompt and answer: the share of counted targets in front",
    "data.pad_label_share": "share of targets equal to the padding id and not ignored",
    "data.pad_position_share": "of targets that are no tokens, one per position: the share that is not ignored where "
    "the input is padding",
    "data.shared_apart": "evaluated samples that were trained on, in separate batches or a separate loader",
    "data.continuous": "training inputs are measured so finely that equal ones are copies, as far as the kept samples tell",
    "data.copied_generator": "the data set draws from a generator of its own that every loader worker has a copy of",
    "data.joined_at": "updates at which training began to draw from another data set",
    "data.brought_by": "how batches were seen: loader, batches(), loss call",
    "eval.metric_recomputed": "{name: [reported, recomputed]} where both were seen",
    "eval.metric_formula": "{name: by which wrong arithmetic the script came to it}: so far, of means, padded, half, …",
    "eval.echo": "an accuracy that was printed again and again while nothing was evaluated: {value, count, first, last}",
    "data.captured": "the user asked to keep raw samples (capture_batch)",
    "data.samples": "with capture_batch, a few batches as they came: {train, val: [{inputs, targets, kind, png or rows}]}",
    "eval.slices": "parts of the last evaluation by length, brightness or the user's own columns: {slice, n, loss, "
    "mean_loss, p (uncorrected)}",
    "eval.probes": "with capture_batch, the first samples of every evaluation: {targets, steps, predicted (a row each time)}",
    "eval.ap": "average precision per class of the last evaluation",
    "eval.worst": "the ten samples of the last evaluation with the largest loss: {sample (its place), loss, target, predicted}",
    "eval.confusion": "confusion matrix of the last evaluation (at most 100 classes)",
    "eval.ece": "expected calibration error of the last evaluation",
    "eval.auroc": "AUROC per class of the last evaluation",
    "amp.autocast": "dtype of autocast in training forwards",
    "amp.scaler": "a GradScaler was used",
    "loop.left_out": "forwards in training that no backward followed, where the loss of some was not finite: {batches, looked "
    "(their loss is known), broke (it was not finite)}",
    "amp.half_modules": "norm, softmax or loss executed in half precision: list of names",
    "amp.half_model": "the model's own weights are fp16",
    "perf.shares": "wall shares {train, data, eval, checkpoint, logging, traindx}",
    "perf.compiled": "torch.compile was seen",
    "perf.shapes": "distinct input shapes that a compiled model was given on full steps",
    "perf.uncompiled": "torch's compiler gave up on code that it had to compile too often: {step, graphs, reason}",
    "perf.window": "steps that a profiler window was asked for",
    "perf.profile": "summary of a profiler window: {steps, device, busy (share of wall time the device worked), "
    "median_kernel_us, ops_per_step, copy_share, h2d_share, top: [{op, share}]}",
    "perf.cached_speedup": "T18: real step time over cached-batch step time",
    "memory.growth": "named growth: list of {line, kind, per_step, holder}",
    "memory.oom": "report of an out-of-memory error",
    "memory.total": "bytes of the accelerator",
    "memory.alloc_retries": "allocations that succeeded only after the cache was emptied",
    "checkpoint.missing": "what torch.save left out while it lived: optimizer, scheduler, scaler, rng, step",
    "checkpoint.saves": "number of checkpoint files written",
    "seeds": "{python, numpy, torch, cuda, worker}: true where a seed was set",
    "resume.left": "states of a read checkpoint that were not restored: left, taken, same_schedule",
    "deterministic": "torch.use_deterministic_algorithms state",
    "rng.used": "{python, numpy, torch, worker}: true where random numbers were drawn while training, by the script's own code",
    "trial.batch_mixing": "T09 in eval mode: {ratio: other samples' gradient over the own, module}",
    "trial.future_leak": "T09 over time: {ratio: gradient of later positions over the own, position}",
    "trial.pad_leak": "T09 under padding: {change: relative change of valid outputs when padded content changes}",
    "trial.underflow": "T06: parameter → share of zero gradients in half precision minus that in float32",
    "trial.label_info": "T11: {z, batches, permutations, offset, offset_z}; z of first-order label information",
    "trial.determinism": "T15: {equal, steps, step, op, module, kind (value, control flow)}",
    "trial.resume": "T22: {equal, steps, field} first field in which a resumed run differs",
    "trial.anneal": "T12: {train, val, train_continued, val_continued}: relative change of the losses of a fork whose "
    "learning "
    "rate decays to 0, and of one that continues unchanged (negative is better; val may be null), with {significant: bool}",
    "trial.sharpness": "T17: list of {step, lambda_max, lr, limit (largest stable lambda_max for this optimizer and lr)}",
    "trial.lr_tenth": "T16: {train, train_continued, significant}: relative loss change of a fork at a tenth of the rate",
    "trial.augmentation": "{augmented, raw} loss of the same training samples in eval mode, with and without augmentation",
    "compare.separation": "two runs: {signal, step, sigma, windows, reference, seeds}: where and how far they part",
    "budget.planned_steps": "steps the run was meant to take, where known",
    "budget.target": "loss or metric the user wants to reach: {signal, value}",
    "finetune": "weights were loaded or adapters used, or the first loss is far below chance",
    "acts": "between updates the model under training is asked for a few samples, without a graph: what it says makes the data",
    "rl": "the user said so, or the data come from the model",
    "model.batchnorm_momentum": "share of the newest batch in the running statistics, per BatchNorm layer",
    "ssl": "two views of one batch go through one network and the loss compares them",
    "adversarial": "two players with their own optimizers",
    "curriculum": "batch statistics drift with the epoch by intent",
    "frozen_by_intent": "whole modules were frozen before the first step, adapters, or the user listed them",
    "log_form": "raw, window-mean, running-mean or ema, per signal",
    "log_interval": "steps between two records of loss/train",
    "log_rounding": "importers: smallest difference that the written numbers can show, per signal",
    "metrics.direction": "importers: signal → up or down, where the name of a metric tells which is better",
    "step_unit": "what a step of an imported log counts: step, epoch, epoch/1000 (thousandths), samples, tokens or record",
    "columns": "importers: what each column was taken for: {column: signal}",
    "unmapped": "importers: columns we did not use",
    "hparams": "hyper-parameters found",
    "code.files": "digest of the script and of every project file it imported: {path: sha256}",
    "code.text": "their lines, kept with --keep-source",
    "name": "importers: what the tracker calls the run",
    "diary": "the notes kept with the run: list of {time, kind (note, trial, investigation, conversation), …}",
    "git.commit": "commit of the user's repository",
    "script": "file the run was started from",
    "folder": "folder it was started in",
    "argv": "its arguments, redacted",
    "versions": "python, torch, numpy, traindx …",
    "device": "device of the parameters",
    "rank": "rank of this process",
    "ranks": "rank → {last_step, loss_mean, loss_std, step_time, ended}, of a merged record",
    "ranks.unequal_gradients": "parameters whose gradients differ between ranks when others' do not: names, differ, of",
    "world_size": "number of ranks",
    "flight_recorder": "where torch puts the dumps of its flight recorder, up to the rank's number",
    "distributed": "ddp, fsdp, fsdp2, tp, dp or null",
    "distributed.joined": "ranks run dry one after the other, under torch's Join",
    "started": "wall-clock start, seconds",
    "ended": "how it ended: closed, exception, exit, killed, running; detached: we left while it was running",
    "exit.code": "the code the program gave itself, where it is not 0",
    "exception": "{type, message, file, line} that ended the run",
    "history": "logs of the process from which its past was read, when we came to it",
    "attached": "updates that had been made when we came to the process, or where we count from if that is not known",
    "attached.guessed": "that number is not known: nothing counts the updates",
    "blind": "signal name → why it could not be seen",
    "watched": "event kinds that were being watched (absence of such an event is then a fact)",
    "cost": "what observing cost: {share (after the start), total_share, seconds, start_seconds, start_steps, full_steps, "
    "records}",
    "looks": "the plan of looks: the `first` steps, one in 16 · 2^`octave` of the `dense` start, then one in `widest`. "
    "`extra` looks followed something that happened",
    "origin": "forensics: first non-finite operation {op, phase, module, file, line, inputs, index, sample, blame, advice, "
    "proven}",
    "origins": "forensics: every origin, same shape",
    "capsule.failed": "forensics: why no capsule was saved",
    "replay.seconds": "forensics: how long the replay took",
    "replay.failed": "forensics: why the step could not be replayed",
}

# Events: kind → what `data` holds. An event marks the first time a thing was seen; `data["count"]` counts where it repeats.
EVENTS: dict[str, str] = {
    "nonfinite": "what (loss, grad, param, buffer, state, activation, input), names, value (nan, inf, -inf), "
    "when (before or after the update); one event per what",
    "nan_hidden": "how (nan_to_num, gradient, inside, skipped, logging), count, site; one event per how, one with the count",
    "inplace_error": "autograd's version-counter error: forward (file:line), inplace (file:line), op, shape",
    "resume": "previous_last_step, steps_repeated",
    "attached": "previous_last_step, steps_repeated: what came before is told by the logs of the process",
    "retrained": "another optimizer took over; a new training began in the same process. Data: previous_last_step, "
    "same_parameters (it continues with them), carried (share of its parameters that an earlier training worked on), alike (as "
    "many trainable parameters of the same shapes). Otherwise data, loss and model facts are those of the new one",
    "incarnation": "the process was started again",
    "mode": "model switched to train or eval",
    "evaluation": "an evaluation began: samples, batches, seconds",
    "epoch": "an epoch began: index, loader",
    "lr_jump": "from, to",
    "scheduler_order": "scheduler.step before optimizer.step: count",
    "double_step": "optimizer.step twice without a backward between: count",
    "weights_back": "all weights were again what they had been before the first update, to the bit: count",
    "stale_grads": "an optimizer other than the first stepped on gradients of its last update: optimizer (its place), "
    "names, count",
    "clip_after_step": "count",
    "clip_before_unscale": "count",
    "clip_value": "clip_grad_value_ was used: value",
    "clip_nonfinite": "the clipped norm was not finite: count",
    "scaler_bypassed": "optimizer.step called in addition to scaler.step: count",
    "scaler_no_update": "scaler.update missing or twice: count",
    "backward_in_autocast": "count",
    "scaler_with_bf16": "count",
    "accumulation_undivided": "k backwards per step, loss not divided: k",
    "accumulation_discarded": "k backwards of one loss per step, with gradients cleared before each: k, count",
    "grad_all_none": "every gradient was None at the update: count",
    "detached_loss": "backward was called on a loss that has no graph: site, count",
    "batch_size_one": "a BatchNorm layer got a batch of one sample in training mode: count",
    "empty_targets": "a batch had no valid target: count",
    "loader_dry": "an iterator over a loader that had ended was asked for more, and gave nothing: count",
    "eval_dropout": "F.dropout without training= ran while the model was in eval mode: p, site",
    "label_out_of_range": "min, max, classes",
    "spike": "an abnormal step the recorder saw: signal, z",
    "checkpoint": "torch.save: keys, holds, missing",
    "load": "load_state_dict: missing, unexpected; into the model while it is trained: digest of what it holds now, site",
    "dropped": "records lost: count, why",
    "record": "the record on disk changed how it is kept: from, to (ok, dropping, memory, off), why, dropped, lost",
    "sensor_off": "a probe was switched off: name, error",
    "traindx_off": "traindx switched itself off: why",
    "exception": "type, message, file, line",
    "skip_guard": "an update was skipped by the opt-in guard",
    "grad_alert": "the gradient norm crossed the limit of `watch(alert_grad_norm=…)`, or is not finite: norm, limit",
    "oom": "out of memory",
    "said": "a message of the program that names a condition (`key`, `line`, `count`, `survived`)",
    "rank_lost": "a rank went before the others: rank, last_step, how (signal, error, left, silent), why",
    "collectives": "last collectives of a rank that stands still or fails, from torch's flight recorder: rank, entries",
    "collective_mismatch": "the first collective in which ranks do not meet: group, seq, kind (differ, missing), ranks, calls",
    "hang": "no progress: seconds, rank, stack",
    "cap": "a capsule was saved: path",
}

# What a plain log can carry, in the order in which it is worth writing down; the rest needs an observer inside the run.
LOGGABLE = (
    "loss/train",
    "loss/val",
    "lr",
    "grad_norm",
    "accuracy/train",
    "accuracy/val",
    "epoch",
    "time/step",
    "throughput",
    "time/data",
    "mem/allocated",
    "mem/reserved",
    "amp/scale",
    "rl/kl",
    "rl/entropy",
)


def spec(name: str) -> SignalSpec | None:
    """The table's row for a signal name, through the open names; None when it is not in the vocabulary."""
    if name in SIGNALS:
        return SIGNALS[name]
    return next((s for pattern, s in SIGNALS.items() if pattern.endswith("/*") and fnmatch.fnmatchcase(name, pattern)), None)
