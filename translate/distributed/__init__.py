"""Several processes that train or decode together, as torchrun starts them."""
