"""How fast jobs are taken in, beside a handler that does nothing and beside what people build today."""
