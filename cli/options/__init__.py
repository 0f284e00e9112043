"""Options and arguments that several commands have, and what each names."""
