"""What lessens the weight of figures, in words: a note for each reason."""
