"""HTTP server: `batching` shares a model among requests, and `app` answers them."""
