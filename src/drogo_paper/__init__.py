"""The paper's questions, one file each: what is run, what is made of it, and its picture."""
