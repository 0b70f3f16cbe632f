"""Pictures of a model and its training: pages for a browser, figures for papers."""
