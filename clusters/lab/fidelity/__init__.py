"""A deployment that a CNI's real agent makes in the lab's namespaces, and its comparison with the
model (docs/fidelity.md).
"""
