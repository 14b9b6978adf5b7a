"""The `andornot` command line: one module per command. They may import all packages; no package imports them."""
