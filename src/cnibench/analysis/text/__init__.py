"""What an analysis says in words: the paragraphs and names that every report shares."""
