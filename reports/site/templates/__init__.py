"""Jinja templates, the style sheet and the script of the pages."""
