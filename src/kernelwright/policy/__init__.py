"""Language models as kernel writers, behind the interface `Policy`, which the teacher also
implements. `prompt` writes requests, `answer` reads answers, `local` decodes, `endpoint` asks a
server."""
