"""OpenAI's endpoints, by hand and through the clients that speak to them."""
