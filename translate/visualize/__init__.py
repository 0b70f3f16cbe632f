"""Layer 5: what a model does and how it learnt, as pictures: pages for the browser, figures for papers."""
