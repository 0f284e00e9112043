"""The datapaths of the lab: one family of profiles a module, found by its ``PROVIDER``, a subclass
of ``builders.base.Datapath``.
"""
