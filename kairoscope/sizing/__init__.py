"""From measured CPU and bytes a point to machines and their price: arithmetic, line by line.

`figures` has what was measured or published, with how sure it is; `size` computes; `show` prints.
"""
