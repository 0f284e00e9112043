"""The figures of the pages, one file for each kind. A figure is a Vega-Lite specification, a table
of the same numbers and a picture.
"""
