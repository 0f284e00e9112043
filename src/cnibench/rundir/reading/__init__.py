"""What the readers of a run directory are made of: lines, documents, raw output, problems."""
