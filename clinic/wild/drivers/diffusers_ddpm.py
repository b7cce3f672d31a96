"""A tiny U-Net of diffusers learns to denoise the digits, with an average of its weights."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel
from sklearn.datasets import load_digits

torch.manual_seed(0)
pictures = torch.tensor(load_digits().images / 8 - 1, dtype=torch.float32)[:, None]
model = UNet2DModel(8, 1, 1, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8, attention_head_dim=8,
                    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"))  # fmt: skip
noise_scheduler, ema = DDPMScheduler(100), EMAModel(model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
rate = get_cosine_schedule_with_warmup(optimizer, 20, 240)
loader = torch.utils.data.DataLoader(pictures, 64, shuffle=True)
step = 0
while step < 240:
    for clean in loader:
        noise = torch.randn_like(clean)
        when = torch.randint(0, 100, (len(clean),))
        noisy = noise_scheduler.add_noise(clean, noise, when)
        loss = torch.nn.functional.mse_loss(model(noisy, when, return_dict=False)[0], noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
        ema.step(model.parameters())
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
