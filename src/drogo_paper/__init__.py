"""The reproduction of the paper: one file per question, with its jobs, answer and figure."""
