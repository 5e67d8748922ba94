"""Changes bookmarks and other records as edits: intentions, which can be applied again to what other devices have changed meanwhile."""
