"""What the messages of programs mean: errors and warnings that name a condition in so many words.

A log holds more than losses. Each row is a message that PyTorch, a launcher or a library prints, the condition it belongs to,
what it comes to and what to do. The importer notes which rows occur (event `said`); the rule of that code reports them.

>>> said_in("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB").code
'PERF003'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from traindx.finding import Severity


@dataclass(frozen=True)
class Message:
    """One kind of message and its condition."""

    key: str
    pattern: str
    code: str
    says: str
    fix: str
    severity: Severity = Severity.CRITICAL

    @property
    def fatal(self) -> bool:
        """It ends the program: where records follow, it was caught."""
        return self.severity is Severity.CRITICAL and self.code in ("PERF003", "DIST005")


MESSAGES: tuple[Message, ...] = (
    Message(
        "loader-worker",
        r"DataLoader worker .{0,40}(?:killed by signal|exited unexpectedly)|insufficient shared memory",
        "PERF003",
        "a data-loader worker was killed, most often because memory or shared memory ran out",
        "Set num_workers=0 to see the real error. If it runs then, give the container more shared memory (--shm-size=8g) "
        "or use fewer workers.",
    ),
    Message(
        "oom",
        r"out of memory|OutOfMemoryError|can't allocate memory|oom[-_]kill|exit ?code *:? *(?:137|-9)\b|ResourceExhausted"
        r"|STATUS_ALLOC_FAILED|^Killed$|line \d+: +\d+ Killed\b",
        "PERF003",
        "the program ran out of memory",
        "Halve the batch size and accumulate over two batches, or use mixed precision. "
        "Then run `traindx run` to see what holds the memory.",
    ),
    Message(
        "embedding-index",
        r"index out of range in self|srcIndex < srcSelectDimSize|indexSelectLargeIndex",
        "TUNE007",
        "an embedding was asked for an index it does not have: a token id is outside the vocabulary",
        "Compare len(tokenizer) with the embedding's rows, and resize the embedding after adding tokens.",
    ),
    Message(
        "label-range",
        r"t >= 0 && t < n_classes|Target -?\d+ is out of bounds|cur_target >= 0 && cur_target < n_classes"
        r"|device-side assert|all elements of (?:target|input) should be between 0 and 1|is not in range \[0, \d+\]",
        "DATA003",
        "a label lies outside the classes of the model's head (the usual cause of a device-side assert)",
        "Print the smallest and largest label and the number of outputs. Run one batch on the CPU: it names the line.",
    ),
    Message(
        "collective-timeout",
        r"collective operation timeout|NCCL (?:watchdog|timeout)|Watchdog caught|ncclRemoteError"
        r"|ncclSystemError|ncclInternalError"
        r"|Timed out (?:after|waiting).{0,40}(?:clients|recv|ranks)|gloo.{0,80}(?:Connection closed|timed out)",
        "DIST005",
        "a collective call timed out: some ranks waited for a rank that did something else or was gone",
        "Find the rank that stopped first; its own log holds the reason. "
        "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 to see which call differs.",
    ),
    Message(
        "launch",
        r"Duplicate GPU detected|ncclInvalidUsage|Address already in use|ChildFailedError",
        "DIST005",
        "the processes of the job did not come together, or one of them ended with an error and the others were stopped",
        "Look for the first error of the rank that is named. Give each process its own device (LOCAL_RANK) "
        "and each job its own port.",
    ),
    Message(
        "unused-parameters",
        r"Expected to have finished reduction in the prior iteration",
        "WIRE014",
        "parameters took no part in the loss while the ranks waited for their gradients",
        "Remove the unused part, or pass find_unused_parameters=True to DistributedDataParallel.",
    ),
    Message(
        "broadcast",
        r"Using a (?:target|input) size .{0,80}different to the (?:input|target) size",
        "WIRE008",
        "the loss compares tensors of different shapes, so every prediction is compared with every target",
        "Give both the same shape: `pred.squeeze(-1)` or `target.unsqueeze(-1)`.",
    ),
    Message(
        "missing-keys",
        r"(?:Missing|Unexpected) key\(s\) in state_dict|missing[ _]keys?\b.{0,40}\[['\"]|size mismatch for \S+: copying",
        "WIRE015",
        "the checkpoint does not fit the model: keys are missing, left over or of another size",
        "Compare the two lists of keys. A prefix such as 'module.' or another number of classes is the usual reason.",
    ),
    Message(
        "newly-initialized",
        r"newly initialized|were not used when initializing",
        "TUNE008",
        "weights of the checkpoint and of the model are not the same set: some start from random numbers, or were left out",
        "Read the list of names. A new head is as it should be; anything else was not loaded.",
        Severity.INFO,
    ),
    Message(
        "scheduler-order",
        r"lr_scheduler\.step\(\)` before `optimizer\.step\(\)",
        "WIRE010",
        "the schedule is stepped before the optimizer, so its first value is skipped",
        "Call optimizer.step() first, then scheduler.step().",
        Severity.WARNING,
    ),
    Message(
        "inplace",
        r"modified by an inplace operation",
        "NUMR010",
        "a tensor that backward needs was changed in place",
        "Replace the in-place operation by its plain form: `x = x + y`, ReLU(inplace=False).",
    ),
    Message(
        "no-grad-fn",
        r"does not require grad and does not have a grad_fn|None of the inputs have requires_grad=True",
        "WIRE003",
        "the loss has no path back to a trainable parameter",
        "Look for no_grad(), detach(), .item() or frozen parameters between the model and the loss.",
    ),
    Message(
        "graph-freed",
        r"backward through the graph a second time",
        "WIRE011",
        "backward ran twice through one graph: a tensor of an earlier step is still part of this one's loss",
        "Detach what is kept from step to step (hidden states, running sums), or add up the losses and call backward once.",
    ),
    Message(
        "shapes",
        r"shapes cannot be multiplied|Expected input batch_size .{0,40}to match target batch_size|size mismatch, (?:got|m1)"
        r"|The size of tensor a .{0,40}must match|to have \d+ channels, but got|is invalid for input of size"
        r"|Sizes of tensors must match|shape mismatch|(?:equal|same) number of dimensions",
        "WIRE007",
        "shapes do not fit: the model, its input or its target has another size than expected",
        "Print the shapes just before the line of the traceback, and compare them with what the layer expects.",
    ),
    Message(
        "kinds",
        r"(?:expected scalar type|to have the same dtype|[Ff]ound dtype)|tensors to be on the same device"
        r"|Input type \(.{0,60}weight type|not implemented for '(?:Half|Long|Int|Double|Bool|BFloat16)'",
        "WIRE007",
        "tensors of different number types, or on different devices, meet in one operation",
        "Print dtype and device of both just before the line of the traceback. "
        "Targets of cross-entropy are long, those of other losses float.",
    ),
    Message(
        "one-value",
        r"Expected more than 1 value per channel when training",
        "ACTV008",
        "batch normalisation got a batch of one: a mean over one value is no mean",
        "Set drop_last=True for the training loader, or use a norm that does not look at the batch.",
    ),
    Message(
        "no-parameters",
        r"optimizer got an empty parameter list|Module .{0,40}has no parameters",
        "WIRE001",
        "the optimizer was given nothing to train",
        "Register layers as attributes or in nn.ModuleList, and make the optimizer after the model is complete.",
    ),
    Message(
        "backward-nan",
        r"Function '?\w*Backward\d*'? returned nan|is non-finite, so it cannot be clipped",
        "NUMR002",
        "a backward pass made NaN or infinity out of a finite loss",
        "Guard the operation that is named: sqrt and norm at 0, division by 0, log of 0.",
    ),
    Message(
        "scaler-misuse",
        r"Attempting to unscale FP16 gradients|unscale_\(\) has already been called|No inf checks were recorded",
        "NUMR009",
        "mixed precision is used in the wrong order",
        "Keep the weights in float32, and call scaler.unscale_ once, before clipping, then scaler.step and scaler.update.",
    ),
    Message(
        "scale-at-minimum",
        r"loss scale already at minimum|Minimum loss scale reached",
        "NUMR005",
        "the loss scale fell to its minimum: gradients overflow at every step",
        "Train in bfloat16, or lower the learning rate. `traindx run` names the first tensor that overflows.",
    ),
    Message(
        "scale-lowered",
        r"OVERFLOW! .{0,30}[Ss]kipping|Gradient overflow",
        "NUMR004",
        "a gradient overflowed in half precision and its step was skipped; a few at the start are normal",
        "If it continues, train in bfloat16 or lower the learning rate.",
        Severity.INFO,
    ),
    Message(
        "nan-skipped",
        r"(?:skip\w*|ignor\w*).{0,40}\b(?:nan|inf|non-?finite)\b|\b(?:nan|inf|non-?finite)\b.{0,40}\bskip",
        "NUMR008",
        "steps with NaN or infinity are skipped while the training continues",
        "Find out where they come from: `traindx run` names the operation and the line.",
        Severity.WARNING,
    ),
    Message(
        "nan-loss",
        r"\bloss\b.{0,40}\bis (?:nan|inf)\b|\bnan (?:loss|detected|encountered)|NaN or Inf (?:found|detected)|loss diverged",
        "NUMR001",
        "the program itself says that its loss is not finite",
        "`traindx run` names the first operation that is not finite and its line.",
    ),
    Message(
        "nan-input",
        r"[Ii]nput (?:\w+ )?contains (?:NaN|infinity)",
        "DATA001",
        "the data hold NaN or infinity",
        "Look for them where the data are read: `np.isfinite(x).all()`. Divisions by a standard deviation of "
        "0 are the usual source.",
    ),
    Message(
        "masked-labels",
        r"instance will be ignored in loss calculation|[Cc]ould not find (?:response|instruction) key",
        "TUNE002",
        "examples have no label left to learn from: the response was not found or was cut off",
        "Check that the response template is tokenised as in the text, and that max_length leaves room for the answer.",
        Severity.WARNING,
    ),
    Message(
        "too-long",
        r"Token indices sequence length is longer than the specified maximum",
        "TUNE007",
        "texts are longer than the model's maximum length",
        "Truncate when tokenising, or split the texts.",
        Severity.WARNING,
    ),
    Message(
        "no-padding",
        r"tokenizer does not have a padding token",
        "TUNE007",
        "the tokenizer has no padding token",
        "Add one, or use eos as padding and mask it out of the labels by position, not by its id.",
    ),
    Message(
        "disk-full",
        r"No space left on device|Disk quota exceeded",
        "REPR005",
        "the disk is full: the checkpoint that was being written is cut off",
        "Free room or keep fewer checkpoints, and resume from the last one that loads.",
    ),
    Message(
        "kernel",
        r"illegal memory access|(?:CUBLAS|CUDNN)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|MAPPING_ERROR)",
        "DIST007",
        "a kernel failed on the device: most often an index out of range or memory that ran out, seldom the device itself",
        "Run one batch on the CPU: it names the line. Then CUDA_LAUNCH_BLOCKING=1.",
    ),
    Message(
        "device-fault",
        r"uncorrectable ECC|ECC error|NVRM: Xid|GPU has fallen off the bus|CUDA error: unspecified launch failure",
        "DIST007",
        "the device reports a hardware fault",
        "Move the job to another device and have this one checked.",
    ),
)

BY_KEY = {message.key: message for message in MESSAGES}
_ANY = re.compile("|".join(f"(?P<m{i}>{message.pattern})" for i, message in enumerate(MESSAGES)), re.I)
_HINT = re.compile(
    r"error|nan\b|inf\b|memory|assert|bounds|index|timeout|timed|watchdog|nccl|size|shape|key|initialized|step\(\)|inplace|grad|"
    r"killed|unscale|reduction|ignored|maximum|minimum|ecc|xid|137|-9|diverged|prior|overflow|graph|dtype|type|channel|param|"
    r"quota|space|gpu|status|access|contains|used|token",
    re.I,
)


def said_in(line: str) -> Message | None:
    """The row that a line of text belongs to."""
    if not _HINT.search(line):
        return None
    found = _ANY.search(line[:2000])
    return MESSAGES[int(str(found.lastgroup)[1:])] if found and found.lastgroup else None
