"""The rewards of the three papers, as functions of a verdict, and the advantages of a group."""
