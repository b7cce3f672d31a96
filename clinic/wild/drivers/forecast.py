"""Forecasts of made-up hours: nbeats | tft (pytorch-forecasting) | darts."""

import sys

import numpy as np
import pandas as pd
import torch

torch.manual_seed(0)
t = np.arange(400)
y = (np.sin(2 * np.pi * t / 24) + 0.1 * np.random.RandomState(0).randn(400)).astype("float32")
quiet = dict(enable_progress_bar=False, logger=False, enable_checkpointing=False, accelerator="cpu", enable_model_summary=False)
task = sys.argv[1]
if task == "darts":
    from darts import TimeSeries
    from darts.models import NBEATSModel

    series = TimeSeries.from_values(y)
    model = NBEATSModel(24, 6, num_blocks=1, num_stacks=4, layer_widths=32, n_epochs=4, random_state=0, pl_trainer_kwargs=quiet)
    model.fit(series[:320], val_series=series[320:])
    print(f"forecast {float(model.predict(6).values().mean()):.4f}")
else:
    import lightning.pytorch as pl
    from pytorch_forecasting import NBeats, TemporalFusionTransformer, TimeSeriesDataSet

    pl.seed_everything(0)
    frame = pd.DataFrame({"time": t, "value": y, "group": "a"})
    how = dict(time_idx="time", target="value", group_ids=["group"], max_encoder_length=24, max_prediction_length=6)
    known = {"time_varying_unknown_reals": ["value"]}
    data = TimeSeriesDataSet(frame[frame.time < 320], **how, **known, add_relative_time_idx=task == "tft")
    held = TimeSeriesDataSet.from_dataset(data, frame, min_prediction_idx=320)
    kind = TemporalFusionTransformer if task == "tft" else NBeats
    size = dict(hidden_size=8, attention_head_size=1, hidden_continuous_size=4) if task == "tft" else dict(widths=[32, 64], backcast_loss_ratio=0.1)
    net = kind.from_dataset(data, learning_rate=3e-3, log_interval=-1, **size)
    trainer = pl.Trainer(max_epochs=4, gradient_clip_val=0.1, **quiet)
    trainer.fit(net, data.to_dataloader(train=True, batch_size=32), held.to_dataloader(train=False, batch_size=64))
    print(f"loss {float(trainer.callback_metrics['val_loss']):.4f}")
