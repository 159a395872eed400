"""The common code of host and guest: frames on the wire, contracts, tensors as bytes."""
