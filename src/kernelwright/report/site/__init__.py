"""A site of linked pages from the records of many runs. It needs no network and no server."""
