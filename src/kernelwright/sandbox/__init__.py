"""Guests: processes that run hostile candidates under limits, and answer with bytes.

`host` starts guests and reads their answers. `guest` is the code beside the candidate. Neither
imports the other. `confine` holds the guards, `shared` what both sides know, and `workers` runs our
own jobs in many processes. The sandbox decides nothing: `verify` judges.
"""
