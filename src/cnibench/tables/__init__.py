"""What ``cnibench query`` asks: run directories as SQL tables."""
