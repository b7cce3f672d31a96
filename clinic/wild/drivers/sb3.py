"""An agent of stable-baselines3 or sb3-contrib on a classic control task: ALGORITHM TASK STEPS."""

import sys

import gymnasium as gym
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.evaluation import evaluate_policy

algorithm, task, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
agent = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
more = {"learning_starts": 200} if algorithm in ("DQN", "SAC", "TD3", "DDPG", "QRDQN", "TQC") else {}
model = agent("MlpPolicy", gym.make(task), seed=0, device="cpu", **more)
model.learn(total_timesteps=steps)
mean, spread = evaluate_policy(model, gym.make(task), n_eval_episodes=3, warn=False)
print(f"mean reward {mean:.2f} +- {spread:.2f}")
