"""Functions that write parts of kernel text for several families: sizes, index variables,
expressions, dtypes."""
