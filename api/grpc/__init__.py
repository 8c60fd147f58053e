"""The same jobs over gRPC: an extra, and off until ``[server] grpc_port`` is set. docs/grpc.md tells why it is so."""

import os

# Children of this process speak no gRPC, and its fork handlers would write to the terminal at each start of one.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
