"""A fleet simulated: how long jobs wait and what they cost, by arrival rate and by the rule that sizes the fleet."""
