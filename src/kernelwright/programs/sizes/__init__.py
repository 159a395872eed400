"""One program for several sizes: attributes that differ between the sizes become functions of the
sizes."""
