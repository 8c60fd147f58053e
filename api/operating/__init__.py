"""What operators do over REST: find jobs and act on many, look at attempts, drain workers, the overview."""
