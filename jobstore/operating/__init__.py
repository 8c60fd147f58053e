"""What operators do: find jobs and act on many, look at attempts, drain workers, and see how everything stands."""
