"""The comparison as static pages: read from a folder, offline, by anyone. ``build.build`` writes
them.
"""
