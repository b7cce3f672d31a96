"""The transformers Trainer on a tiny random model: causal | masked | classify | seq2seq, and `lora` for adapters."""

import sys

import torch
from datasets import Dataset
from transformers import (
    BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration,
    Trainer, TrainingArguments, set_seed,
)  # fmt: skip

task, lora = sys.argv[1], "lora" in sys.argv
set_seed(0)
V, L, PAD, MASK = 60, 16, 0, 1
gen = torch.Generator().manual_seed(0)


def rows(count):
    """Sequences that count upwards from a random start by a random stride."""
    start, stride = torch.randint(2, V, (count, 1), generator=gen), torch.randint(1, 4, (count, 1), generator=gen)
    return (start - 2 + stride * torch.arange(L)) % (V - 2) + 2, (stride[:, 0] - 1)


def dataset(count):
    ids, label = rows(count)
    length = torch.randint(10, L + 1, (count,), generator=gen)
    out = []
    for row, n, kind in zip(ids, length, label):
        shown = torch.where(torch.arange(L) < n, row, PAD)
        mask = (torch.arange(L) < n).long()
        entry = {"input_ids": shown.tolist(), "attention_mask": mask.tolist()}
        if task == "causal":
            entry["labels"] = torch.where(mask.bool(), shown, -100).tolist()
        elif task == "masked":
            hide = (torch.rand(L, generator=gen) < 0.15) & mask.bool()
            hide[0] = True
            entry["input_ids"] = torch.where(hide, MASK, shown).tolist()
            entry["labels"] = torch.where(hide, shown, -100).tolist()
        elif task == "seq2seq":
            entry["labels"] = torch.where(mask.bool(), shown.flip(0).roll(int(n) - L), -100).tolist()
        else:
            entry["labels"] = int(kind)
        out.append(entry)
    return Dataset.from_list(out)


small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
if task == "causal":
    model = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=L, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1))
elif task == "masked":
    model = BertForMaskedLM(BertConfig(vocab_size=V, **small))
elif task == "seq2seq":
    model = T5ForConditionalGeneration(T5Config(vocab_size=V, d_model=32, d_ff=64, num_layers=1, num_heads=2, d_kv=16, decoder_start_token_id=0))
else:
    model = BertForSequenceClassification(BertConfig(vocab_size=V, num_labels=3, **small))
if lora:
    from peft import LoraConfig, get_peft_model

    names = ["c_attn"] if task == "causal" else ["query", "value"]
    model = get_peft_model(model, LoraConfig(r=8, target_modules=names, modules_to_save=["lm_head"] if task == "causal" else ["classifier"]))
arguments = TrainingArguments(
    "out", num_train_epochs=4, per_device_train_batch_size=16, learning_rate=3e-3, eval_strategy="epoch", save_strategy="no",
    logging_steps=10, report_to=[], use_cpu=True, seed=0, disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(model=model, args=arguments, train_dataset=dataset(640), eval_dataset=dataset(128))
trainer.train()
print(f"eval loss {trainer.evaluate()['eval_loss']:.4f}")
