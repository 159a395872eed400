"""Kernel writers that are language models: prompts in, answers out.

A policy is the embedded model, a model in a folder, or a model behind a URL. `prompt` writes the
question, `answer` reads the plan and the code, `local` decodes, `endpoint` asks a server.
"""
