"""Commands that say what runs measured."""
