"""The code that host and guest both import: frames on the wire, requests and replies, tensors as
bytes, temporary folders."""
