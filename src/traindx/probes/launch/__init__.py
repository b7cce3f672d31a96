"""How observing begins and ends: scripts, `watch`, torchrun."""
