"""The values of one tile: where elements lie, and the lines that compute them."""
