"""The same jobs over gRPC: an extra, and off until ``[server] grpc_port`` is set. docs/grpc.md tells why it is so."""
