"""Reports: what jobs cost and how long they took, by what they are asked to be told apart by."""
