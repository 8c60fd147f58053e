"""What is true of a job in every store: its transitions, its money, its events. Stores keep rows; these decide."""
