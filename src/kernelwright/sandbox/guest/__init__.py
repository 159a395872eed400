"""The guest's side: this code runs in the process of a hostile candidate. The host trusts nothing
that comes from here."""
