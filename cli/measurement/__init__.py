"""From the options of a command to a measurement and its answer."""
