"""Hostile candidates, and the means to see from outside what they do.

- `prelude` is the honest part of each candidate and what attacks share.
- `leaving`, `reaching`: out of the guest. `forging`, `hosting`: the host that reads and cleans up.
  `replacing`, `lasting`: one candidate on the next.
- `attack` says what an attack is; `suite` has all of them.
- `canaries`, `judging`, `supervising` run them and look at the rest of the machine.
"""
