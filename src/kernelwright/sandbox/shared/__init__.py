"""What host and guest both know: frames on the wire, contracts, tensors as bytes."""
