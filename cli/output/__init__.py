"""How results, problems and files are written."""
