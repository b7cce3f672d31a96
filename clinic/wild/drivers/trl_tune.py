"""TRL on a tiny random model: sft | dpo | reward."""

import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed

set_seed(0)
words = ["[PAD]", "[EOS]", "[UNK]", "add", "gives", *(str(k) for k in range(40))]
raw = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_positions=32, n_embd=32, n_layer=2, n_head=2, pad_token_id=0, eos_token_id=1, bos_token_id=1))
gen = torch.Generator().manual_seed(0)
pairs = torch.randint(0, 20, (480, 2), generator=gen).tolist()
common = dict(
    output_dir="out", num_train_epochs=4, per_device_train_batch_size=16, learning_rate=2e-3, report_to=[], use_cpu=True, seed=0,
    logging_steps=10, save_strategy="no", disable_tqdm=True, bf16=False,
)  # fmt: skip
if sys.argv[1] == "sft":
    from trl import SFTConfig, SFTTrainer

    rows = [{"prompt": f"add {a} {b} gives ", "completion": f"{a + b}"} for a, b in pairs]
    data = Dataset.from_list(rows).train_test_split(0.2, seed=0)
    config = SFTConfig(**common, eval_strategy="epoch", max_length=16)
    trainer = SFTTrainer(model=model, args=config, train_dataset=data["train"], eval_dataset=data["test"], processing_class=tokenizer)
else:
    from trl import DPOConfig, DPOTrainer

    rows = [{"prompt": f"add {a} {b} gives ", "chosen": f"{a + b}", "rejected": f"{(a + b + 7) % 40}"} for a, b in pairs]
    data = Dataset.from_list(rows).train_test_split(0.2, seed=0)
    config = DPOConfig(**common, eval_strategy="epoch", max_length=16)
    trainer = DPOTrainer(model=model, args=config, train_dataset=data["train"], eval_dataset=data["test"], processing_class=tokenizer)
trainer.train()
print(f"eval loss {trainer.evaluate()['eval_loss']:.4f}")
