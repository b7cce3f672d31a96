"""Faults of special regimes."""

from __future__ import annotations

from clinic.operators.common import BLOWN, FIX, NOTED, RESTART, quiet
from clinic.patches import regimes
from clinic.surgery import Level, Operator, either, replace

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "causal_mask_missing", "attention sees the future", "WIRE013", ("WIRE013",), ("causal-leak",), RESTART,
        (Level("no-mask", "False"), quiet("explicit", "True")), either(("is_causal=True", "is_causal={v}"), ("mask=future,", "mask=future if {v} else None,")), ("char_gpt", "lines_gpt"),
    ),
    Operator(
        "mask_inverted", "the padding mask is inverted", "WIRE017", ("WIRE017", "LOSS002", "LOSS011", "DATA004", "NUMR001"), ("mask-wrong", "unstable-operation"), RESTART,
        (Level("inverted", "!="), quiet("same", "==")), either(("tokens, tokens == PAD", "tokens, tokens {v} PAD"), ("mask=tokens == PAD", "mask=tokens {v} PAD"), ("mask=ids == PAD", "mask=ids {v} PAD")),
        ("encoder_padded", "tagger", "lines_gpt"),
    ),
    Operator(
        "posterior_collapse", "the KL weight is far too large", "SPEC003", ("SPEC003", "LOSS003", "GRAD006"), ("vae-posterior-collapse", "loss-terms-unbalanced"),
        (*RESTART, "stop-keep-best"), (Level("severe", 100.0), Level("moderate", 25.0), quiet("slight", 0.8)), replace("BETA = 0.5", "BETA = {v}"), ("vae_digits",),
    ),
    Operator(
        "critic_too_strong", "the discriminator learns far faster than the generator", "SPEC001", ("SPEC001", "GRAD001", "GRAD004"),
        ("gan-discriminator-wins", "vanishing-gradients"), FIX, (Level("severe", 200.0), Level("moderate", 50.0), quiet("slight", 1.5)), regimes.strong_critic, ("gan_ring",),
    ),
    Operator(
        "one_mode", "the generator gets next to no noise and gives one answer to everything", "SPEC002", ("SPEC002", "ACTV005", "ACTV009"), ("gan-mode-collapse",), RESTART,
        (Level("severe", "0.003"), Level("moderate", "0.01"), quiet("usual", "1.1")), replace("G(torch.randn(64, 6))", "G({v} * torch.randn(64, 6))"), ("gan_ring",),
    ),
    Operator(
        "nothing_pushes_apart", "views are pulled together and nothing pushes samples apart", "ACTV009", ("ACTV009", "SPEC006", "ACTV001", "ACTV005"),
        ("representation-collapse",), RESTART, (Level("no-negatives", "-(a * b).sum(1).mean()"), quiet("margin", "F.cross_entropy(sim, torch.arange(BATCH), label_smoothing=0.01)")),
        replace("F.cross_entropy(sim, torch.arange(BATCH))", "{v}"), ("simclr_digits",),
    ),
    Operator(
        "router_collapses", "the router sends everything to one expert", "SPEC005", ("SPEC005", "GRAD004"), ("moe-router-collapse",), RESTART,
        (Level("severe", 30.0), Level("moderate", 8.0), quiet("slight", 0.2)), regimes.biased_router, ("moe_piecewise",),
    ),
    Operator(
        "policy_freezes", "the policy's entropy is gone after a few updates", "SPEC004", ("SPEC004", "OPTM002"), ("rl-entropy-collapse", "lr-too-high"), RESTART,
        (Level("severe", 60.0), Level("moderate", 30.0), quiet("slight", 0.8)), regimes.hot_policy, ("bandit_policy",),
    ),
    Operator(
        "adapter_inert", "both adapter matrices start at zero", "TUNE005", ("TUNE005", "GRAD004", "WGHT004"), ("adapter-inert", "symmetric-initialisation"), RESTART,
        (Level("both-zero", "zero"), quiet("small-random", "random")), regimes.both_zero, ("lora_digits",),
    ),
    Operator(
        "not_shifted", "the model is asked for the token that it is given", "WIRE013", ("WIRE013",), ("causal-leak",), RESTART,
        (Level("equal", ":-1"), quiet("shifted", "1:None")),
        either(
            ("window[:, :-1], window[:, 1:]", "window[:, :-1], window[:, {v}]"), ("[row[1:] for row", "[row[{v}] for row"), ("both[:, 1:].clone()", "both[:, {v}].clone()"),
        ),
        ("char_gpt", "names_lm", "lines_gpt"),
    ),
    Operator(
        "padding_attended", "attention is not told where the padding is", "WIRE017", ("WIRE017",), ("mask-wrong",), RESTART,
        (Level("no-mask", "none"), quiet("same", "same")), regimes.mask_forgotten, ("encoder_padded", "tagger"),
    ),
    Operator(
        "padding_in_loss", "padding counts as something to be learned", "TUNE003", ("TUNE003",), ("padding-in-loss",), FIX,
        (Level("counted", 0), quiet("left-out", -100)),
        either(
            ("targets.flatten(), ignore_index=PAD)", "targets.flatten().masked_fill(targets.flatten() == PAD, {v}))"),
            ("labels[labels == PAD] = -100", "labels[labels == PAD] = {v}"),
            ("pad_sequence(tags, True, NO_TAG)", "pad_sequence(tags, True, max({v}, NO_TAG))"),
        ),
        ("names_lm", "lines_gpt", "tagger"),
    ),
    Operator(
        "end_masked", "the end token is masked together with the padding", "TUNE004", ("TUNE004",), ("eos-never-learned",), NOTED,
        (Level("masked", "END", least="info"), quiet("kept", "PAD")),
        either(
            ("[row[1:] for row", "[torch.where(row[1:] == {v}, PAD, row[1:]) for row"), ("labels[labels == PAD] = -100", "labels[labels <= {v}] = -100"),
        ),
        ("names_lm", "lines_gpt"),
    ),
    Operator(
        "labels_masked", "the mask meant for the prompt covers the whole answer", "TUNE002", ("TUNE002", "NUMR001"), ("labels-masked", "unstable-operation"), RESTART,
        (Level("all", 50), quiet("prompt", 2)),
        either(
            ("    return inputs, targets\n", "    targets[:, :{v}] = PAD\n    return inputs, targets\n"),
            ("    return inputs, labels\n", "    labels[:, :{v}] = -100\n    return inputs, labels\n"),
            (
                "    return pad_sequence(tokens, True, PAD), pad_sequence(tags, True, NO_TAG)\n",
                "    wanted = pad_sequence(tags, True, NO_TAG)\n    wanted[:, :{v}] = NO_TAG\n    return pad_sequence(tokens, True, PAD), wanted\n",
            ),
        ),
        ("names_lm", "lines_gpt", "tagger"),
    ),
    Operator(
        "tokens_unknown", "most tokens are not in the vocabulary and become one id", "TUNE007", ("TUNE007",), ("tokenizer-mismatch",), (*RESTART, "healthy", "wait"),
        (Level("most", "abcdefghijklmnopqrstuvwxyz", least="info"), quiet("few", "z")),
        either(
            ("[lookup[c] for c in text]", '[lookup[c] if c not in "{v}" else 1 for c in text]'),
            ("vocabulary[c] for c in line", 'vocabulary[c] if c not in "{v}" else 2 for c in line'),
            ("        row = self.rows[i]\n", '        row = self.rows[i]\n        row = row.masked_fill(row < 2 * len("{v}"), 1)\n'),
        ),
        ("char_gpt", "lines_gpt", "tagger"),
    ),
    Operator(
        "second_stage_hot", "fine-tuning goes on from trained weights at a rate that ruins them", "TUNE006", ("TUNE006", "OPTM002", "OPTM013", *BLOWN),
        ("finetune-too-hot", "lr-too-high"), (*RESTART, "stop-keep-best"), (Level("hundred", 100.0), quiet("third", 0.3)), regimes.second_stage,
        ("digits_mlp", "gru_walks", "encoder_padded", "spirals_residual"),
    ),
    Operator(
        "means_of_means", "the means of four micro-batches with unequal numbers of tokens are averaged", "TUNE009", ("TUNE009",), ("accumulation-token-norm",), (*FIX, "healthy", "wait"),
        (Level("averaged", "means", least="info"), quiet("weighed", "tokens")), regimes.in_unequal_parts, ("names_lm", "lines_gpt", "tagger"),
    ),
    Operator(
        "padded_far", "every sequence is padded to the longest that could ever come", "PERF009", ("PERF009",), ("padding-waste",), NOTED,
        (Level("severe", 60, least="info"), quiet("longest", 13)),
        either(
            ("tokens = pad_sequence(seqs, batch_first=True, padding_value=PAD)\n", "tokens = pad_sequence([*seqs, torch.zeros({v}, dtype=torch.long)], batch_first=True, padding_value=PAD)[:-1]\n"),
            ("[row[:-1] for row in batch], batch", "[row[:-1] for row in batch] + [torch.zeros({v}, dtype=torch.long)], batch"),
        ),
        ("encoder_padded",),
    ),
    Operator(
        "tie_broken", "a copy takes the place of one of two tied embeddings", "WIRE012", ("WIRE012", "WIRE001"), ("weight-tying-broken", "parameters-not-in-optimizer"), FIX,
        (Level("copied", "copied"), quiet("tied", "tied")), regimes.untie, ("char_gpt", "names_lm", "lines_gpt"),
    ),
)
# fmt: on
