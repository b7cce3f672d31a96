"""A loop under accelerate with accumulation, clipping and a schedule, on the digits."""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
train, held = random_split(data, [1400, 397], generator=torch.Generator().manual_seed(0))
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
loader, held = DataLoader(train, 32, shuffle=True), DataLoader(held, 64)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=4 * len(loader))
model, optimizer, loader, held, schedule = accelerator.prepare(model, optimizer, loader, held, schedule)
for epoch in range(8):
    model.train()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    right = total = 0
    with torch.no_grad():
        for inputs, labels in held:
            guess, labels = accelerator.gather_for_metrics((model(inputs).argmax(-1), labels))
            right, total = right + int((guess == labels).sum()), total + len(labels)
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right / total:.4f}")
