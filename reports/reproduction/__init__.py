"""The figures of a study with what a run has for them: a page of Markdown for each, with
pictures.
"""

from __future__ import annotations
