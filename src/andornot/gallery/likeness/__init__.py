"""How much a picture shows of a term: what it has beyond the average picture, in few bytes, as a truth from 0 to 1.

Pure tensor maths, no files: `components` (few dimensions, a byte each), `products` (bytes times queries),
`neighbours` (what kind of thing a query shows), `truth` (similarity to truth).
docs/results.md, *Conditions*, has the measurements behind each choice.
"""
