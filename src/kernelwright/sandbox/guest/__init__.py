"""The guest's side: code in the process of a hostile candidate, and the fork server (`forkloop`).
The host trusts no answer of a guest."""
