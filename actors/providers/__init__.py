"""Whom remote models are asked of: endpoints that speak OpenAI's images API, and what the litellm library reaches."""
