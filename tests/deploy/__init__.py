"""How Safelight is deployed: compose.yaml, the images, Kubernetes' manifests."""
