"""How the inputs of a program are drawn, and where its values lie."""
