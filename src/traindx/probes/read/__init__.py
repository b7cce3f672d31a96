"""What is measured on a step that is looked at, by subject."""
