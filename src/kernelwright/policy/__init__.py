"""Language models as kernel writers. All writers have the interface `Policy`, the teacher too.

`prompt` writes requests, and `answer` reads answers. `local` runs a model in this process, with
`decode` and `steps`; `served` and `endpoint` ask a server. `mending` writes faulty answers again.
"""
