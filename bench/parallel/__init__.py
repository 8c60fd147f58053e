"""One model on several devices beside one: time a step, and memory a rank."""
