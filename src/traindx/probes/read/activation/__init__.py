"""What layers give."""
