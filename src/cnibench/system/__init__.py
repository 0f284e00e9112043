"""What the core asks of the operating system."""
