"""Running a session: one hostile guest, its whole process tree, and nothing left behind."""
