"""Jobs that are too long for the files of their questions."""
