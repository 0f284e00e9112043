"""cnibench: a comparative evaluation framework for Kubernetes CNIs."""

__version__ = "0.1.0"
