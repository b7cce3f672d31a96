"""What several subjects read with."""
