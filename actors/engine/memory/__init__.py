"""Memory plans: where the parts of a model lie, chosen by what they need, which is told before they are loaded."""
