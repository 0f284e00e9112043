"""Certificates: what a real agent makes, compared with the model of its profile
(docs/fidelity.md).
"""
