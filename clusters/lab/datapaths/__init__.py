"""The datapaths of the lab: one builder a module, found by its ``PROVIDER``, a subclass of
``base.Datapath``.
"""
