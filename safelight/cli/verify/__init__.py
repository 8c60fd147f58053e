"""``safelight verify``: the pictures of a model on several devices beside those of one."""
