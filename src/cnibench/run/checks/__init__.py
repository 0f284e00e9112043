"""What is checked of a sample while it is measured: its CPUs, its congestion control, stalls."""
