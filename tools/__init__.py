"""What builds and tends the repository itself."""
