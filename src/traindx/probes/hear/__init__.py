"""The taps: what each patched point reports."""
