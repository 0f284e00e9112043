"""Adapters: how a CNI's real agent is started in the lab, one agent a module, found by its
``PROVIDER``, a subclass of ``fidelity.adapter.Adapter``.
"""
