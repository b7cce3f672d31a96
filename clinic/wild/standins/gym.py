"""gym under its newer name."""

from gymnasium import *  # noqa: F403
from gymnasium import spaces  # noqa: F401
