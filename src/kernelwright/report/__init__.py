"""Pages and tables, from records alone: no torch, no live objects.

`page` writes the page of a run of `optimize`, `models` the page of `eval models`. Each folder has
another kind of page: `suite`, `synthetic`, `training`, `programs`. `site` writes a site of all
pages, with a table of all runs.
"""
