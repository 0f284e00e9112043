"""Removing a CNI: by recorded kind, name and UID, after showing and saving what goes."""
