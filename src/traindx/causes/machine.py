"""Speed, memory, ranks and repeatability."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "copying", "much of each step goes into copying", prior=0.2, verdict="fix-and-resume",
        likely={"PERF010": 0.95, "PERF005": 0.1},
        cure="Use `pin_memory` and non-blocking copies, keep one memory format, and let `torch.compile` fuse operations.",
        witness=("PERF010",),
    ),
    Cause(
        "device-fault", "one device computes wrong numbers", prior=0.1, verdict="fix-and-resume",
        likely={"DIST007": 0.97, "NUMR001": 0.2},
        cure="Repeat the step with the same batch on another device. If it is fine there, take the node out of service.",
        witness=("DIST007",),
        regimes=("world_size", "distributed"),
        settle="determinism", cost_steps=6,
    ),
    Cause(
        "evaluation-overhead", "evaluation, checkpoints or logging take much of the time", prior=0.4, verdict="fix-and-resume",
        likely={"PERF008": 0.95, "PERF008:eval": 0.3, "PERF008:checkpoint": 0.2, "PERF008:logging": 0.05},
        cure="Evaluate less often or on a fixed part, save only the last and the best checkpoint, and log every 50 steps.",
        # our own cost is a remark to us, no cause
        witness=("PERF008:eval", "PERF008:checkpoint", "PERF008:logging"),
    ),
    Cause(
        "gradients-not-synced", "gradients are not synchronised between ranks", prior=0.4, verdict="restart",
        likely={"DIST003": 0.97, "DIST001": 0.7},
        cure="Call the DDP wrapper, not its `.module`. Use `no_sync` on all micro-batches but the last.",
        witness=("DIST003",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "host-syncs", "the host waits for the device in every step", prior=0.4, verdict="fix-and-resume",
        likely={"PERF004": 0.95, "PERF005": 0.3},
        cure="Log every 50 steps, keep sums on the device, and avoid Python conditions on tensors.",
        witness=("PERF004",),
    ),
    Cause(
        "incomplete-checkpoint", "checkpoints leave out what a resume needs", prior=0.5, verdict="fix-and-resume",
        likely={"REPR005": 0.95, "REPR003": 0.4, "OPTM010:stateless": 0.2, "OPTM010:reset": 0.2, "LOSS006": 0.15},
        cure="Save model, optimizer, scheduler, scaler, step and random states together[[; missing now: {where}]].",
        witness=("REPR005",),
        settle="resume", cost_steps=10,
    ),
    Cause(
        "input-bound", "training waits for data", prior=1.2, verdict="fix-and-resume",
        likely={"PERF001": 0.95, "PERF005": 0.02},
        cure=(
            "Raise `num_workers`[[ (now {workers})]] until the wait is below 5 % of a step, decode each sample once, and set "
            "`persistent_workers=True`."
        ),
        witness=("PERF001",),
        settle="cached-batch", cost_steps=40,
        not_yet=("Fix wrong results first: do not tune the speed of a broken run.",),
    ),
    Cause(
        "launch-bound", "many tiny operations keep the device waiting", prior=0.4, verdict="fix-and-resume",
        likely={"PERF005": 0.95, "PERF004": 0.2, "PERF010": 0.2},
        cure="Use a larger batch, `torch.compile`, a fused optimizer or bfloat16.",
        refutes=("PERF001",),
        witness=("PERF005",),
    ),
    Cause(
        "memory-leak", "something keeps tensors or graphs alive", prior=0.8, verdict="fix-and-resume",
        likely={"PERF002": 0.95, "PERF002:graph": 0.6, "PERF007": 0.4, "PERF003": 0.3, "EVAL009:grad": 0.2},
        cure="Keep numbers, not tensors: call `.item()` or `.detach()` on what you collect[[ ({where})]].",
        witness=("PERF002",),
    ),
    Cause(
        "memory-pressure", "memory runs out", prior=0.5, verdict="fix-and-resume",
        likely={"PERF003": 0.95},
        cure=(
            "Halve the micro-batch and accumulate twice, use activation checkpointing, make batches of even length, or set "
            "`expandable_segments:True`."
        ),
        refutes=("PERF002:graph",),
        witness=("PERF003",),
    ),
    Cause(
        "nondeterminism", "the run is not deterministic", prior=0.4, verdict="fix-and-resume",
        likely={"REPR001": 0.95, "REPR004": 0.2},
        cure="Call `traindx.seed_everything(seed, deterministic=True)`[[; the first difference is in {where}]].",
        witness=("REPR001",),
        settle="determinism", cost_steps=6,
    ),
    Cause(
        "padding-waste", "most of what is computed is padding", prior=0.4, verdict="fix-and-resume",
        likely={"PERF009": 0.95},
        cure="Bucket sequences by length, pad to the longest of each batch, or pack them[[: up to {gain} times as fast]].",
        witness=("PERF009",),
    ),
    Cause(
        "rank-drift", "the ranks hold different weights", prior=0.4, verdict="restart",
        likely={"DIST001": 0.97, "DIST003": 0.5, "DIST006": 0.1},
        cure=(
            "Wrap the model in DistributedDataParallel, call the wrapper in every forward, and use the same learning rate on "
            "all ranks. Take rank 0's weights on all of them."
        ),
        refutes=("DIST001:buffers",),
        witness=("DIST001",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "rank-hang", "one rank held up the others, or was lost", prior=0.3, verdict="fix-and-resume",
        likely={"DIST005": 0.97},
        cure=(
            "Fix what that rank ran into (read its output, check its machine). Give all ranks the same number of steps "
            "(`drop_last`, Join) and the same branches."
        ),
        witness=("DIST005",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "rank-normalisation", "losses are averaged over ranks with different token counts", prior=0.3, verdict="fix-and-resume",
        likely={"DIST006": 0.97, "EVAL008": 0.2},
        cure="Sum losses and counts over all ranks and divide once.",
        witness=("DIST006",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "rank-statistics", "each rank keeps BatchNorm statistics of its own", prior=0.4, verdict="fix-and-resume",
        likely={"DIST001:buffers": 0.97, "EVAL001": 0.1},
        cure="Convert with `SyncBatchNorm.convert_sync_batchnorm`, or let DistributedDataParallel send rank 0's buffers.",
        witness=("DIST001:buffers",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "recompilation", "the model is recompiled again and again", prior=0.3, verdict="fix-and-resume",
        likely={"PERF006": 0.95, "PERF007": 0.1},
        cure="Pad or bucket inputs to a few shapes, or compile with `dynamic=True`.",
        witness=("PERF006",),
    ),
    Cause(
        "regression", "a change made this run worse than its reference", prior=0.3, verdict="fix-and-resume",
        likely={"REPR004": 0.95},
        cure="Run three seeds of both before concluding; `traindx bisect` finds the change.",
        refutes=("REPR001",),
        witness=("REPR004",),
    ),
    Cause(
        "resume-mismatch", "the resume does not restore the whole state", prior=0.3, verdict="fix-and-resume",
        likely={
            "REPR003": 0.95, "REPR003:loaded": 0.3, "LOSS006:reset": 0.8, "LOSS006": 0.3, "OPTM010:stateless": 0.2,
            "REPR005": 0.2,
        },
        cure=(
            "Restore optimizer, scheduler, scaler, random states and the position in the data[[; the first difference is in "
            "{where}]]."
        ),
        witness=("REPR003", "LOSS006:reset"),
        settle="resume", cost_steps=10,
    ),
    Cause(
        "sharding-fault", "the data are divided wrongly over the ranks", prior=0.4, verdict="fix-and-resume",
        likely={"DIST002": 0.97, "OPTM011": 0.1, "DATA005": 0.1},
        cure="Use a DistributedSampler and call `set_epoch`; split streams by rank and worker.",
        witness=("DIST002",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "straggler", "one rank slows down all others", prior=0.3, verdict="fix-and-resume",
        likely={"DIST004": 0.97, "PERF007": 0.2},
        cure="Balance the sequence lengths, and check clock, disk and ECC errors of that rank.",
        witness=("DIST004",),
        regimes=("world_size", "distributed"),
    ),
    Cause(
        "throughput-drift", "something in the loop grows and slows it down", prior=0.4, verdict="fix-and-resume",
        likely={"PERF007": 0.95, "PERF002": 0.2},
        cure=(
            "Compare a profile of early and late steps. Look for growing lists, hooks registered again, and torch.cat onto a "
            "history."
        ),
        refutes=("PERF002:graph",),
        witness=("PERF007",),
    ),
    Cause(
        "worker-rng", "loader workers draw the same random numbers", prior=0.4, verdict="fix-and-resume",
        likely={"REPR002": 0.95, "DATA009": 0.3},
        cure="Create generators in `worker_init_fn` from `get_worker_info().seed`.",
        witness=("REPR002",),
    ),
)
