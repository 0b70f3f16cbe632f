"""Layer 6: translations by HTTP. `batching` shares the model among requests, and `app` answers them."""
