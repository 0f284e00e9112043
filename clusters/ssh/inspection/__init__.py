"""What a machine reports before anything is changed there, and what follows from it."""
