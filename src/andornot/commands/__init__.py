"""`andornot …`: one module a command, with its options and its run. They may use everything, and nobody uses them."""
