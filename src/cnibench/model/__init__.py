"""The vocabulary that all of cnibench shares."""
