"""The admin pages: what an operator looks at, and does, in a browser."""
