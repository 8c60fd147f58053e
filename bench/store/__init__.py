"""What the job store can bear, beside a peer and beside itself when it is empty."""
