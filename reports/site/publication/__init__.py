"""What makes results of anybody fit to publish: pseudonyms, checked records, and a folder in which
files of others stay.
"""
