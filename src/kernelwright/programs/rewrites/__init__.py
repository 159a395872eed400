"""Rewrites that change the layout or the calls of a program but not its values. The rewrites in
`algebra` remove work."""
