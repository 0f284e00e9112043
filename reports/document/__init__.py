"""A report as headings, paragraphs and tables, before any format: what text, Markdown and the site
show.
"""
