"""The hub: the server that keeps packages and runs, and the pages that show them."""
