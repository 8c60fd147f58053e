"""Image endpoints as OpenAI's clients speak to them, on top of jobs. docs/openai.md tells what differs."""
