"""sentence-transformers' trainer on a tiny random encoder: pairs (in-batch negatives) | scores (cosine)."""

import sys

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses, models
from tokenizers import Tokenizer
from tokenizers import models as kinds
from tokenizers import pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

set_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{k}" for k in range(80))]
raw = Tokenizer(kinds.WordLevel({w: k for k, w in enumerate(words)}, unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]").save_pretrained("tiny")
BertModel(BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)).save_pretrained("tiny")
body = models.Transformer("tiny", max_seq_length=12)
model = SentenceTransformer(modules=[body, models.Pooling(32)], device="cpu")


def sentence(topic, k):
    return " ".join(f"w{(topic * 8 + (k * 5 + j * 3) % 8) % 80}" for j in range(6))


if sys.argv[1] == "pairs":
    rows = [{"anchor": sentence(k % 10, k), "positive": sentence(k % 10, k + 3)} for k in range(400)]
    loss = losses.MultipleNegativesRankingLoss(model)
else:
    rows = [{"sentence1": sentence(k % 10, k), "sentence2": sentence(k % 10 if k % 2 else (k + 4) % 10, k + 1), "score": float(k % 2)} for k in range(400)]
    loss = losses.CosineSimilarityLoss(model)
arguments = SentenceTransformerTrainingArguments(
    "out", num_train_epochs=4, per_device_train_batch_size=16, learning_rate=2e-3, report_to=[], use_cpu=True, logging_steps=10,
    save_strategy="no", disable_tqdm=True, seed=0,
)  # fmt: skip
trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=Dataset.from_list(rows), loss=loss)
trainer.train()
print(f"first weight {next(model.parameters()).flatten()[0].item():.6f}")
