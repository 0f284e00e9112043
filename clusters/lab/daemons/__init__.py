"""User-space programs of a datapath: started, watched and ended with it."""
